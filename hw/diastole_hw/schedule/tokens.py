"""Define the layouts of all records that the decoupled units of the controller exchange.

Positions and lengths are in blocks unless a name says ``count`` or ``size`` (elements).

Terms: an output tile has a *T tile* of rows and a *lane tile* of columns. A *slice* of a
contraction is the part that one pass covers. A *chunk* is the part of an output tile that is loaded
together: some slices. A *slab* is the place of a chunk's operand in its banks. A *pass* is one
stationary block per cell, and all vectors that meet these blocks. A *granule* is the smallest
number of blocks that fill whole beats, at most 8. A *span* is a run of result rows with equal
length.
"""

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data, enum

from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.lengths import longest_lengths
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS
from diastole_sim.spec.image import EXTENT_BITS, GROUP_BLOCKS, PITCH_BITS

POSITION = unsigned(EXTENT_BITS)
LENGTH = unsigned(16)
"""Shape of a length: of a tile, of a chunk, or of their share of a bank; as wide as the longest
field of a loop nest. A machine has lengths as wide as its longest lengths:
:func:`length_shapes`."""


class Region(enum.Enum, shape=3):
    """Destination of a run of beats: a scratchpad, or one of the four maxima memories."""

    SOUTH = 0
    WEST = 1
    STATIONARY = 2
    MAXIMA_SOUTH = 4
    MAXIMA_EAST = 5
    MAXIMA_WEST = 6
    MAXIMA_NORTH = 7


TENSOR = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(32),  # bytes from a row of blocks to the next
        "row_max": unsigned(ADDRESS_BITS),
    }
)

COMMAND_RESULT = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(PITCH_BITS),  # bytes from a row to the next
        "rows": unsigned(EXTENT_BITS),
        "cols": unsigned(EXTENT_BITS),
    }
)
"""Result of a product, with the fields that follow from a command alone."""
COMMAND_RESULTS = data.StructLayout({"east": COMMAND_RESULT, "north": COMMAND_RESULT})
"""Results of a product, by the direction in which sums leave the array."""
RESULT = data.StructLayout(
    COMMAND_RESULT.members
    | {"tile_pitch": unsigned(ADDRESS_BITS)}  # bytes between first rows of T tiles
)

# A product as the units see it while it runs; constant from its start to its end.
PRODUCT = data.StructLayout(
    {
        "mode": Mode,
        "north": 1,  # sums leave only to the north; 0 in the fused pass, which uses both
        "t_size": POSITION,  # elements along the streamed dimension
        "t_blocks": POSITION,
        "l_blocks": POSITION,  # blocks along the lanes
        "c_blocks": POSITION,  # blocks along the contraction
        # Loop nest: blocks of a T tile, of a lane tile and of a chunk.
        "t_step": LENGTH,
        "l_step": LENGTH,
        "c_step": LENGTH,
        "lanes_outermost": 1,  # outermost is the loop over lane tiles, else over T tiles
        "keep_stream": 1,  # load the streaming operand only in the first lane tile
        "keep_stationary": 1,  # load the stationary operand only in the first T tile
        # Blocks of a bank: the slabs of a chunk, and the distance between slices of a stationary
        # bank.
        "stream_slab": LENGTH,
        "stationary_slab": LENGTH,
        "stationary_stride": LENGTH,
        # Whether a tile takes a whole memory of sums, by direction; else half of a memory.
        "east_whole": 1,
        "north_whole": 1,
        "tensors": data.ArrayLayout(TENSOR, 3),  # by class: x, w, dy; the image that is read
        # Bytes from row maxima to column maxima, for operands whose column maxima are read.
        "to_columns": unsigned(EXTENT_BITS + 1),
        "exponents": data.ArrayLayout(signed(10), 3),  # of tensors with group scales, else 0
    }
)

PLANE = unsigned(2)
"""Shape of a plane's number, and of a number of planes less 1."""


def length_shapes(plan: Plan) -> dict[str, Shape]:
    """Return the shapes of the loop-nest lengths of a product, by name."""
    return {name: Shape.cast(range(most + 1)) for name, most in longest_lengths(plan).items()}


def product_layout(plan: Plan) -> data.StructLayout:
    """Return ``PRODUCT`` with lengths as wide as the longest lengths of the machine.

    Where commands state the numbers of planes, ``planes`` has the number less 1, by class, and
    ``lengths`` the bytes from a plane of an image to the next. With a vector unit, ``chain``: the
    result goes to a chain of the vector unit, block by block.
    """
    own: dict = {**length_shapes(plan)}
    if plan.planar:
        own |= {
            "planes": data.ArrayLayout(PLANE, 3),
            "lengths": data.ArrayLayout(unsigned(ADDRESS_BITS), 3),
        }
    if plan.vector is not None:
        own["chain"] = 1
    return data.StructLayout(PRODUCT.members | own)


def operands_layout(plan: Plan) -> data.StructLayout:
    """Return ``OPERANDS``, with ``planes`` where commands state the numbers of planes, and with
    ``chain`` where there is a vector unit. Both fields are defined in :func:`product_layout`. The
    fused pass accepts no chain."""
    own: dict = {}
    if plan.planar:
        own["planes"] = data.ArrayLayout(PLANE, 3)
    if plan.vector is not None:
        own["chain"] = 1
    return data.StructLayout(OPERANDS.members | own) if own else OPERANDS


def _plane_members() -> dict:
    """Return the fields of a chunk in a machine with planes. The chunk multiplies a plane of the
    streaming operand by a plane of the stationary operand. In the fused pass the chunk also
    multiplies the plane of equal number from the west."""
    return {
        "stream_plane": PLANE,
        "stationary_plane": PLANE,
        "east": 1,  # has a plane for the east, or is no chunk of the fused pass
        "north": 1,  # has a plane for the north, or is no chunk of the fused pass
        "load_west": 1,  # the plane from the west is not loaded yet
        "opens": 1,  # first pair of planes of its blocks
        "last_slice": 1,  # last slice of its tile, for any plane
        "done_east": 1,  # no later chunk of the tile has a plane for the east
        "done_north": 1,  # no later chunk of the slice has a plane for the north
    }


def chunk_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a chunk: a piece of the contraction for an output tile. Where tensors
    have planes, a chunk has a single plane of every operand."""
    lanes = max(plan.groups * max(plan.rows, plan.cols), plan.fused_blocks_n)
    chunk = plan.max_chunk_blocks
    first = unsigned(EXTENT_BITS - plan.log_block)
    return data.StructLayout(
        {
            "t0": first,
            "t_blocks": range(plan.tile_blocks + 1),
            "t_count": range(plan.tile_words + 1),
            "l0": first,
            "l_blocks": range(lanes + 1),
            "c0": first,
            "c_blocks": range(chunk + 1),
            "stream_base": range(plan.stream_blocks),  # where its blocks stand in their banks
            "stationary_base": range(plan.stationary_blocks),
            "load_stream": 1,  # the blocks are not loaded yet
            "load_stationary": 1,
            "free_stream": 1,  # no later chunk uses the blocks
            "free_stationary": 1,
            "first": 1,  # of its tile
            "last": 1,
            "first_t": 1,  # its tile is the first along T; first_l: along the lanes
            "first_l": 1,
            "last_t": 1,  # its tile is the last along T; last_l: along the lanes
            "last_l": 1,
            "product": 1,  # number of the product among two in flight
            "tile": range(plan.tiling.tiles_in_flight),  # of the output tile
        }
        | (_plane_members() if plan.planar else {})
    )


_POSITIONS = ("t0", "t_blocks", "l0", "c0", "first_t", "first_l")


def loaded_chunk_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a chunk without its position: the fields still needed after its data
    have been requested."""
    members = chunk_layout(plan).members.items()
    return data.StructLayout({name: shape for name, shape in members if name not in _POSITIONS})


def summed_layout(plan: Plan, *, transposed: bool) -> data.StructLayout:
    """Return the layout of a tile of sums that waits for its drain, with fields of its last chunk.
    The position follows from the preceding tiles. ``transposed``: some tiles are transposed; every
    chunk of a transposed tile has separate sums, and ``last`` marks the last chunk."""
    names = ["t_count", "l_blocks", "last", "last_t", "last_l", "product", "tile"]
    members = chunk_layout(plan).members
    return data.StructLayout({name: members[name] for name in names + ["c_blocks"] * transposed})


def drained_layout(plan: Plan, *, transposed: bool) -> data.StructLayout:
    """Return the layout of a tile of sums in its drain; ``transposed``: some tiles are
    transposed."""
    names = ["t0", "t_count", "l0", "l_blocks", "first_t", "first_l", "last", "tile"]
    if transposed:
        names += ["t_blocks", "c0", "c_blocks"]
    members = chunk_layout(plan).members
    first = {"first_c": 1} if transposed else {}  # first tile along the contraction
    return data.StructLayout({name: members[name] for name in names} | first)


def region_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a rectangle of blocks (or a run of maxima) between memory and
    scratchpad."""
    blocks = max(
        plan.tile_blocks,
        plan.groups * max(plan.rows, plan.cols),
        plan.max_chunk_blocks,
        plan.fused_blocks_n,
        plan.fused_blocks_m,
    )
    entries = max(plan.stream_entries, plan.stationary_entries)
    lengths = longest_lengths(plan)
    return data.StructLayout(
        {
            "kind": Region,
            "cls": unsigned(2),
            "rows": range(blocks + 1),
            "cols": range(blocks + 1),
            "offset": range(GROUP_BLOCKS),  # place of the first column in its group
            "by_column": 1,  # bank by the block's column, else by its row
            "transposed": 1,
            "stream_offset": range(plan.beat_bytes),  # of the tile's first maximum in its beat
            # Place of the tile's first maximum in its beat. In the fused pass: first block of the
            # contraction, among all blocks of dY.
            "stationary_offset": range(max(plan.beat_bytes, plan.fused_blocks_m + 1)),
            "beats": range(blocks * entries // plan.beat_bytes + 3),  # only for maxima
            "base": range(
                max(plan.stationary_blocks, plan.stream_blocks)
            ),  # first block in its banks
            "stride": range(max(lengths["t_step"], lengths["stationary_stride"]) + 1),  # of slices
            "fused": 1,
            "tile": range(plan.tiling.tiles_in_flight),
            "last": 1,  # of the blocks, or of the maxima, of its chunk
        }
        | ({"plane": PLANE} if plan.planar else {})
    )


def max_mantissa_beats(plan: Plan) -> int:
    return max(plan.group_layouts[cls].block_beats(GROUP_BLOCKS) for cls in range(3))


def max_exponent_beats(plan: Plan) -> int:
    return max(plan.group_layouts[cls].exponent_beats for cls in range(3))


def any_grouped(plan: Plan) -> bool:
    return any(map(plan.grouped, range(3)))


def block_group_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a region's blocks in one group: region, position, number, and
    exponents."""
    region = region_layout(plan)
    exponents = max(plan.group_layouts[cls].exponent_entries for cls in range(3))
    place = (
        {"place": range(GROUP_BLOCKS)} if any_grouped(plan) else {}
    )  # place of the first block in its group
    return data.StructLayout(
        {
            "region": region,
            "row": region["rows"].shape,  # of the region; 1 if the region has a single row
            "col": region["cols"].shape,  # of the first block
            "blocks": range(GROUP_BLOCKS + 1),  # whole granules: some may be beyond the region
            "exponents": unsigned(8 * exponents),  # exponents of the first block lowest
        }
        | place
    )


def block_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a block whose vectors follow, for the words of a bank from ``word`` on.

    Properties that may differ between vectors have an entry for every row of a block that may
    differ.
    """
    byte = unsigned(8)
    members = {
        "kind": Region,
        "cls": unsigned(2),
        "bank": range(max(plan.rows, plan.cols)),
        "word": range(max(plan.stationary_words, plan.stream_words) // plan.fill_vectors),
        # Maxima of the vectors; the maximum of a stationary block to the east, which has a single
        # maximum.
        "maximum": data.ArrayLayout(byte, plan.stream_entries),
        "maximum_north": data.ArrayLayout(byte, plan.stationary_entries),
        "scale": data.ArrayLayout(byte, max(plan.stream_entries, plan.stationary_entries)),
        "plane": PLANE,
        "transposed": 1,
        "drop": 1,  # the block only fills a granule, or a port's share
        "ends": 1,  # last block of its part of a group
        "last": 1,  # last block of its chunk
    }
    absent = {"maximum_north": not plan.north, "plane": not plan.planar}
    return data.StructLayout({k: v for k, v in members.items() if not absent.get(k)})


def filled_vector_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a vector on its way into a scratchpad.

    The fields from ``deficit`` to ``significand`` describe the group of the vector; ``deficit`` may
    also be the deficit of a stationary block to the east. ``extent``, and ``poison`` with a bit for
    every element, describe the elements.
    """
    deficit = unsigned(plan.deficit_bits)
    members = {
        "elements": data.ArrayLayout(unsigned(plan.element().bits), plan.block),
        "deficit": deficit,
    }
    if plan.north:
        members["deficit_north"] = deficit
    members["nonzero"] = unsigned(1)
    if plan.significands:
        members["significand"] = unsigned(SCALE_SIGNIFICAND_BITS)
    if plan.shape.extents:
        members["extent"] = unsigned(plan.shape.extent_bits)
    if plan.poison:
        members["poison"] = unsigned(plan.block)
    return data.StructLayout(members)


def scratch_write_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a word on its way into a scratchpad: V vectors of a block, the first
    vector lowest. ``word`` counts words within the bank."""
    block = block_layout(plan).members
    members = {name: block[name] for name in ("kind", "bank", "word")}
    vectors = data.ArrayLayout(filled_vector_layout(plan), plan.fill_vectors)
    return data.StructLayout(members | {"vectors": vectors})


FREES = data.StructLayout({"stream": 1, "stationary": 1, "west": 1})
"""Places in the scratchpads that are read for the last time: of the streaming operand, of the
stationary operand, and of the operand from the west in the fused pass."""


def slot_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of one slot of the array, before the skew of the ports. (A slot is one
    cycle of the array: a vector enters at every port of one side, or none enters.)"""
    return data.StructLayout(
        {
            "valid": 1,
            "direction": 1,  # 0 south to east, 1 west to north
            "swap": 1,  # the next slot begins a pass: the loaded blocks become active
            "south_addr": range(plan.stream_words),
            "west_addr": range(plan.stream_words),
            "sum_addr": range(plan.sum_words),
            "fresh": 1,  # first slice of its contraction: overwrite, do not add
            "frees": FREES,  # with the last slot that reads them
            "done_east": 1,  # last slot of its output tile, per direction
            "done_north": 1,
        }
        # Slice that begins or ends its chunk; ``fresh`` holds for the whole first chunk.
        | dict.fromkeys(("begins", "ends") if plan.floats else (), 1)
    )


def stationary_read_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a stationary word on its way to the load ports, before the skew."""
    return data.StructLayout(
        {
            "valid": 1,
            "addr": range(plan.stationary_words),
            "row": range(max(plan.rows, 2)),
            "index": range(max(plan.block, 2)),
            "rows_valid": range(plan.rows + 1),  # blocks of the slice inside the tensor
            "cols_valid": range(plan.cols + 1),
        }
    )


def pass_layout(plan: Plan) -> data.StructLayout:
    slot = slot_layout(plan).members
    stationary = stationary_read_layout(plan).members
    return data.StructLayout(
        {
            "t_count": range(plan.tile_words + 1),
            "stationary_addr": stationary["addr"],
            "rows_valid": stationary["rows_valid"],
            "cols_valid": stationary["cols_valid"],
            "south_addr": slot["south_addr"],
            "west_addr": slot["west_addr"],
            "east_addr": slot["sum_addr"],
            "north_addr": slot["sum_addr"],
            "fresh_east": 1,
            "fresh_north": 1,
            "use_east": 1,
            "use_north": 1,
            "frees": FREES,
            "done_east": 1,
            "done_north": 1,
        }
        | dict.fromkeys(CHUNK_ENDS if plan.floats else (), 1)
    )


CHUNK_ENDS = ("begins_east", "begins_north", "ends_east", "ends_north")
"""Marks of a pass, where sums of chunks are added as floats: the slice begins or ends its chunk."""


def span_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of ``repeat`` rows of equal length, ``pitch`` apart."""
    vectors = plan.longest_row
    return data.StructLayout(
        {
            "addr": unsigned(ADDRESS_BITS),
            "cols": range(vectors * plan.block + 1),  # floats of a row
            "vectors": range(vectors + 1),  # vectors of a row
            "repeat": range(plan.tile_words + 1),
        }
    )


SIZE = unsigned(EXTENT_BITS)


ADDRESS = unsigned(ADDRESS_BITS)


# Operands of a product command: sizes in elements, byte addresses of images and results, and the
# loop nest. A nest length of 0 selects the machine's own length. A tensor in vector groups has two
# images; its address is the address of the image that the product reads.
OPERANDS = data.StructLayout(
    {
        "m": SIZE,
        "n": SIZE,
        "k": SIZE,
        "x": ADDRESS,
        "w": ADDRESS,
        "dy": ADDRESS,
        "dw": ADDRESS,  # results, by name
        "dx": ADDRESS,
        "y": ADDRESS,
        "nest_t": unsigned(16),
        "nest_groups": unsigned(8),
        "nest_chunk": unsigned(16),
        "nest_outer": 1,
        "nest_keep": 2,
    }
)
NEST_OPERANDS = tuple(name for name in OPERANDS.members if name.startswith("nest_"))
"""Fields of the loop nest among ``OPERANDS``."""
