"""Lengths of bursts and depths of queues, for hardware and for the model of cycles."""

BURST_BEATS = 64
"""Bursts end at multiples of this many beats: 4 KiB is a multiple of it at every bus width."""
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
