"""Instructions in blocks as the core of the vector unit is to see them, said in Python."""

from diastole_hw.vector.core.entry import PANEL
from diastole_sim.spec.micro import FIELDS, NEUTRAL, SPECIALS, USES, MicroOp, Source
from diastole_sim.spec.stream_table import Kind

INFINITIES = {0: (0, 0), 0x7F800000: (1, 0), 0xFF800000: (1, 1)}


def random_fields(rng, block):
    """Of an instruction whose codes are right; not every rule is obeyed."""
    fields = {field.name: rng.getrandbits(field.bits) for field in FIELDS}
    turns = block.bit_length()
    fields |= {"op": int(rng.choice(list(MicroOp))), "d": rng.choice((31, rng.randrange(16)))}
    fields |= {"o": rng.choice((7, *range(4))), "when": rng.randrange(4)}
    fields |= {"turn_lanes": rng.randrange(turns), "turn_rows": rng.randrange(turns)}
    sources = [*range(16), *Source]
    return fields | {letter: int(rng.choice(sources)) for letter in "abc"}


def word_of(fields):
    return sum(fields[field.name] << field.low for field in FIELDS)


def random_block(rng, shape):
    numbers = {axis: rng.getrandbits(shape.index_bits) for axis in "ij"}
    return numbers | {name: rng.getrandbits(1) for name in ("first", "last", "first_row", "end")}


def random_stream(rng):
    kind = rng.choice((Kind.PANEL, Kind.PANEL, Kind.F32, Kind.PRODUCT))
    return {
        "used": 1, "kind": int(kind), "aux": rng.randrange(4) if kind == Kind.PANEL else 0,
        "address": rng.getrandbits(40), "pitch": rng.getrandbits(32),
    }  # fmt: skip


def holds(when, block):
    return [True, block["last"], block["first"], not block["last"]][when]


def vector_of(shape, stream, block):
    """Modulo the panel's size."""
    i, j = block["i"], block["j"]
    number = [i * stream["pitch"] + j, i, j, j][stream["aux"]]
    return (stream["address"] + number * shape.block) % shape.panel_vectors


def operand(fields, letter, block, streams):
    """Source, of the panel its stream, and whether the sign changes."""
    special = fields["op"] in SPECIALS
    named = "a" if special and letter == "b" else letter
    used = letter == "b" if special else letter in USES[MicroOp(fields["op"])]
    if not used:
        return int(Source.ZERO), None, None
    source, stream = fields[named], None
    if Source.S0 <= source <= Source.S3 and streams[source - 16]["kind"] == Kind.PANEL:
        stream = streams[source - 16]
        zero = stream["aux"] == 3 and block["first_row"]
        source, stream = (int(Source.ZERO), None) if zero else (PANEL, stream)
    return source, stream, fields[f"negate_{named}"]


def entry_of(shape, fields, block, streams):
    """The members that mean something."""
    operands = {letter: operand(fields, letter, block, streams) for letter in "abc"}
    sources = [source for source, _, _ in operands.values()]
    panels = [stream for _, stream, _ in operands.values() if stream]
    output = streams[4 + fields["o"]] if fields["o"] < 4 else None
    of_panel = bool(output) and output["kind"] == Kind.PANEL
    fresh = fields["fresh"] & block["first"]
    entry = {
        "op": fields["op"],
        "special": int(fields["op"] in SPECIALS),
        **{f"{letter}.source": source for letter, (source, _, _) in operands.items()},
        **{f"{letter}.negate": sign for letter, (_, _, sign) in operands.items()},
        "writes": int(fields["d"] != 31),
        "d": fields["d"] if fields["d"] != 31 else None,
        "writes_output": int(bool(output) and not of_panel),
        "o": fields["o"] if output else None,
        "to_panel": int(of_panel),
        "turn_lanes": 1 << fields["turn_lanes"] >> 1,
        "turn_rows": 1 << fields["turn_rows"] >> 1,
        "fresh": fresh,
        "keep": fields["keep"],
        "streams": sum(1 << n for n in range(4) if 16 + n in sources),
        "from_panel": int(bool(panels)),
        "panel_read": vector_of(shape, panels[-1], block) if panels else None,
        "panel_write": vector_of(shape, output, block) if of_panel else None,
    }
    if fresh and fields["op"] in NEUTRAL:
        entry["infinite"], entry["negative"] = INFINITIES[NEUTRAL[MicroOp(fields["op"])]]
    return {name: value for name, value in entry.items() if value is not None}


def compared(got, entry):
    """Each member of a view that is expected to be something."""
    for name, want in entry.items():
        value = got
        for part in name.split("."):
            value = value[part]
        yield name, value, want
