"""Rows of floats on their way to memory, and the bytes that they leave there."""


def store(image, plan, span, rows, pitch):
    """Write the rows of a span as they must be: zeros to the end of the beat, or of the last
    vector."""
    unit = min(plan.beat_bytes, 4 * plan.block)
    for number, row in enumerate(rows):
        floats = b"".join(value.to_bytes(4, "little") for value in row[: span["cols"]])
        floats += bytes(-len(floats) % unit)
        start = span["addr"] + number * pitch
        image[start : start + len(floats)] = floats


def carry_out(image, requests, beats, beat_bytes):
    """Write what a unit has asked for: payloads of requests, and of their beats in their order."""
    beats = iter(beats)
    for request in requests:
        assert request["addr"] % beat_bytes == 0
        for at in range(
            request["addr"], request["addr"] + request["beats"] * beat_bytes, beat_bytes
        ):
            beat = next(beats)
            word = beat["data"].to_bytes(beat_bytes, "little")
            for byte in range(beat_bytes):
                if beat["strb"] >> byte & 1:
                    image[at + byte] = word[byte]
    assert not list(beats), "beats that nobody has asked for"


def differing(got, want, spans):
    """Where images differ, for people; nothing if they do not."""
    wrong = [at for at in range(len(want)) if got[at] != want[at]]
    return f"from byte {wrong[0]:#x} on; {spans=}" if wrong else ""
