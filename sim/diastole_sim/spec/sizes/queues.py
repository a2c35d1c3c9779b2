"""Lengths of bursts and depths of queues, for hardware and for the model of cycles."""

SHORT_QUEUE = 16
"""Most words of a queue that outputs a word in the cycle after its arrival, without a memory read.
Deeper queues take 2 cycles, unless they are ``quick``."""
BURST_BEATS = 64
"""Bursts end at multiples of this many beats: 4 KiB is a multiple of it at every bus width."""
OPEN_READS = 32
"""Number of bursts that a reader may have open at a time."""
OPEN_WRITES = 16
"""Number of bursts that a writer may have open at a time."""
REGIONS_AHEAD = 8
"""Regions of a chunk that are requested and whose data have not begun to arrive."""
CHUNKS_AHEAD = 6
"""Chunks that are requested and whose last pass has not begun."""
FLOAT_WORDS = 32
"""Words of sums of a direction that are read and have not left the drain: more words than the lanes
hold, so that a word may leave in every cycle. The queue is a memory and costs no registers."""
TRANSPOSED_PIECES = 3
"""Pieces in the memory that transposes: one that enters, one that leaves, and one whose columns are
still in the lanes."""
DIGIT_BITS = 8
"""Bits of a count that are multiplied by a pitch in a cycle."""
INPUT_BLOCKS = 4
"""Number of blocks that fit in the buffer of an input of a chain."""
OUTPUT_BLOCKS = 4
"""Number of blocks whose rows fit in the queue of the outputs of a chain."""
OUTPUT_REQUESTS = 2
"""Most blocks of outputs that wait for the location of addresses."""
LEAST_ROWS = 32
"""Minimum depth of a queue of rows of outputs. A queue deeper than :data:`SHORT_QUEUE` is a
memory."""
_IMAGE_BITS = 1 << 13


def image_rows(data_width: int) -> int:
    """Return the number of rows by which the converter may lag behind a chain. The number is larger
    for a narrow bus, where the converter is slow, so that the next chain begins early."""
    return max(LEAST_ROWS, _IMAGE_BITS // data_width)
