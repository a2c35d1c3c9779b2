"""What the decoupled units of the controller tell each other; one place for every layout.

Positions and lengths are in blocks unless a name says ``count`` or ``size`` (elements).
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
"""Of a tile, a chunk, or what these take of a bank: as wide as the longest field of a nest. A
machine's own are as wide as its longest ones: :func:`length_shapes`."""


class Region(enum.Enum, shape=3):
    """Where a run of beats goes: a scratchpad, or one of the four maxima memories."""

    SOUTH = 0
    WEST = 1
    HELD = 2
    MAXIMA_SOUTH = 4
    MAXIMA_EAST = 5
    MAXIMA_WEST = 6
    MAXIMA_NORTH = 7


TENSOR = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(32),  # bytes from one row of blocks to the next
        "row_max": unsigned(ADDRESS_BITS),
    }
)

GIVEN_RESULT = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(PITCH_BITS),  # bytes from one row to the next
        "rows": unsigned(EXTENT_BITS),
        "cols": unsigned(EXTENT_BITS),
    }
)
"""A result, as far as it follows from a command alone."""
GIVEN_RESULTS = data.StructLayout({"east": GIVEN_RESULT, "north": GIVEN_RESULT})
"""Those of a product, by the direction in which their sums leave."""
RESULT = data.StructLayout(
    GIVEN_RESULT.members
    | {"tile_pitch": unsigned(ADDRESS_BITS)}  # bytes from one T tile's first row to the next's
)

# One product, as the units see it while it runs; constant from its start to its end.
PRODUCT = data.StructLayout(
    {
        "mode": Mode,
        "north": 1,  # sums leave to the north only; 0 in the fused pass, which has both
        "t_size": POSITION,  # elements along the streamed dimension
        "t_blocks": POSITION,
        "l_blocks": POSITION,  # blocks along the lanes
        "c_blocks": POSITION,  # blocks along the contraction
        # Its nest: blocks of a T tile, of a lane tile and of a chunk.
        "t_step": LENGTH,
        "l_step": LENGTH,
        "c_step": LENGTH,
        "lanes_outermost": 1,  # the loop over lane tiles; else that over T tiles
        "keep_stream": 1,  # what streams is loaded in the first lane tile only, and stays
        "keep_held": 1,  # what is held in the first T tile only
        # Blocks of a bank: what a chunk takes, and from one slice of a held bank to the next.
        "stream_slab": LENGTH,
        "held_slab": LENGTH,
        "held_stride": LENGTH,
        # Whether a tile takes a whole memory of sums, by direction; else half of one.
        "east_whole": 1,
        "north_whole": 1,
        "tensors": data.ArrayLayout(TENSOR, 3),  # by class: x, w, dy; the image that is read
        # Bytes from the maxima of rows to those of columns, of operands of which these are read.
        "to_columns": unsigned(EXTENT_BITS + 1),
        "exponents": data.ArrayLayout(signed(10), 3),  # of tensors whose groups have scales, else 0
    }
)

PLANE = unsigned(2)
"""Number of a plane of a tensor, or how many it has less 1."""


def length_shapes(plan: Plan) -> dict[str, Shape]:
    """The lengths of a product's nest, by name."""
    return {name: Shape.cast(range(most + 1)) for name, most in longest_lengths(plan).items()}


def product_layout(plan: Plan) -> data.StructLayout:
    """``PRODUCT``, its lengths as wide as the longest ones of the machine.

    Where commands say in how many planes tensors are, ``planes`` has that less 1, by class, and
    ``lengths`` the bytes from one plane of an image to the next. Where there is a vector unit,
    ``chain``: the result goes to a chain of its, block by block.
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
    """``OPERANDS``; where commands say in how many planes tensors are, with ``planes``, and where
    there is a vector unit, with ``chain``, both as in :func:`product_layout`. The fused pass takes
    no chain."""
    own: dict = {}
    if plan.planar:
        own["planes"] = data.ArrayLayout(PLANE, 3)
    if plan.vector is not None:
        own["chain"] = 1
    return data.StructLayout(OPERANDS.members | own) if own else OPERANDS


def _plane_members() -> dict:
    """What a chunk says in a machine of planes: it multiplies one of what streams with one of what
    is held, and in the fused pass the same one of what comes from the west."""
    return {
        "stream_plane": PLANE,
        "held_plane": PLANE,
        "east": 1,  # it has something for the east, or is no chunk of the fused pass
        "north": 1,  # for the north, likewise
        "load_west": 1,  # the plane that comes from the west is not there yet
        "opens": 1,  # of its blocks the first pair of planes
        "last_slice": 1,  # of its tile, whatever the planes
        "done_east": 1,  # none of its tile's follows that has something for the east
        "done_north": 1,  # of its slice's, for the north
    }


def chunk_layout(plan: Plan) -> data.StructLayout:
    """A chunk of a contraction, for one output tile; where tensors have planes, of one plane of
    each operand."""
    lanes = max(plan.groups * max(plan.rows, plan.cols), plan.fused_blocks_n)
    chunk = plan.most_chunk_blocks
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
            "held_base": range(plan.held_blocks),
            "load_stream": 1,  # they are not there yet
            "load_held": 1,
            "free_stream": 1,  # no later chunk has them
            "free_held": 1,
            "first": 1,  # of its tile
            "last": 1,
            "first_t": 1,  # its tile is the first along T, or along the lanes
            "first_l": 1,
            "last_t": 1,  # or the last
            "last_l": 1,
            "product": 1,  # which of the two products in flight it is of
            "tile": range(plan.tiling.tiles_in_flight),  # number of the output tile, modulo as many
        }
        | (_plane_members() if plan.planar else {})
    )


_POSITIONS = ("t0", "t_blocks", "l0", "c0", "first_t", "first_l")


def loaded_chunk_layout(plan: Plan) -> data.StructLayout:
    """A chunk without its position: what is left to be known when its data have been asked for."""
    members = chunk_layout(plan).members.items()
    return data.StructLayout({name: shape for name, shape in members if name not in _POSITIONS})


def summed_layout(plan: Plan, *, turned: bool) -> data.StructLayout:
    """A tile of sums that waits for its drain, of its last chunk; its position follows from the
    tiles before it. ``turned``: some tiles are, of which each chunk has one, and ``last`` says that
    it is the last chunk."""
    names = ["t_count", "l_blocks", "last", "last_t", "last_l", "product", "tile"]
    members = chunk_layout(plan).members
    return data.StructLayout({name: members[name] for name in names + ["c_blocks"] * turned})


def drained_layout(plan: Plan, *, turned: bool) -> data.StructLayout:
    """A tile of sums, as its drain walks it; ``turned``: whether some are."""
    names = ["t0", "t_count", "l0", "l_blocks", "first_t", "first_l", "last", "tile"]
    if turned:
        names += ["t_blocks", "c0", "c_blocks"]
    members = chunk_layout(plan).members
    first = {"first_c": 1} if turned else {}  # it is the first along its contraction
    return data.StructLayout({name: members[name] for name in names} | first)


def region_layout(plan: Plan) -> data.StructLayout:
    """One rectangle of blocks (or run of maxima) on its way from memory to a scratchpad."""
    blocks = max(
        plan.tile_blocks,
        plan.groups * max(plan.rows, plan.cols),
        plan.most_chunk_blocks,
        plan.fused_blocks_n,
        plan.fused_blocks_m,
    )
    entries = max(plan.stream_entries, plan.held_entries)
    lengths = longest_lengths(plan)
    return data.StructLayout(
        {
            "kind": Region,
            "cls": unsigned(2),
            "rows": range(blocks + 1),
            "cols": range(blocks + 1),
            "offset": range(GROUP_BLOCKS),  # block of its group in which the first column stands
            "by_column": 1,  # which bank: by the block's column, or by its row
            "turned": 1,
            "stream_offset": range(plan.beat_bytes),  # of the tile's first maximum in its beat
            # Likewise; in the fused pass the first block of the contraction, of all of dY's.
            "held_offset": range(max(plan.beat_bytes, plan.fused_blocks_m + 1)),
            "beats": range(blocks * entries // plan.beat_bytes + 3),  # maxima only
            "base": range(max(plan.held_blocks, plan.stream_blocks)),  # in each of its banks
            "stride": range(max(lengths["t_step"], lengths["held_stride"]) + 1),  # of slices there
            "fused": 1,
            "tile": range(plan.tiling.tiles_in_flight),
            "last": 1,  # of its chunk's blocks, or of its chunk's maxima
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
    """The blocks of one group that a region wants: whose they are, which, and their exponents."""
    region = region_layout(plan)
    exponents = max(plan.group_layouts[cls].exponent_entries for cls in range(3))
    place = (
        {"place": range(GROUP_BLOCKS)} if any_grouped(plan) else {}
    )  # of the first one in its group
    return data.StructLayout(
        {
            "region": region,
            "row": region["rows"].shape,  # of the region; or 1, where it has but one
            "col": region["cols"].shape,  # of the first of the blocks
            "blocks": range(GROUP_BLOCKS + 1),  # whole granules: some may be beyond the region
            "exponents": unsigned(8 * exponents),  # those of the first block lowest
        }
        | place
    )


def block_layout(plan: Plan) -> data.StructLayout:
    """A block whose vectors are about to come, to the words of a bank from ``word`` on.

    What may differ from vector to vector has as many entries as the rows of a block that may.
    """
    byte = unsigned(8)
    members = {
        "kind": Region,
        "cls": unsigned(2),
        "bank": range(max(plan.rows, plan.cols)),
        "word": range(max(plan.held_words, plan.stream_words) // plan.fill_vectors),
        # Of the vectors; of a held block to the east, which has one.
        "maximum": data.ArrayLayout(byte, plan.stream_entries),
        "maximum_north": data.ArrayLayout(byte, plan.held_entries),
        "scale": data.ArrayLayout(byte, max(plan.stream_entries, plan.held_entries)),
        "plane": PLANE,
        "turned": 1,
        "drop": 1,  # it only fills a granule, or a port's share
        "ends": 1,  # last of its part of a group
        "last": 1,  # of its chunk's
    }
    absent = {"maximum_north": not plan.north, "plane": not plan.planar}
    return data.StructLayout({k: v for k, v in members.items() if not absent.get(k)})


def filled_vector_layout(plan: Plan) -> data.StructLayout:
    """A vector on its way into a scratchpad.

    ``deficit``, of a vector or of a held block to the east, to ``significand`` are those of its
    group; ``extent`` and ``poison``, a bit for each element, are of what it holds.
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
    """A word on its way into a scratchpad: V vectors of a block, the first one lowest; ``word``
    counts words within the bank."""
    block = block_layout(plan).members
    members = {name: block[name] for name in ("kind", "bank", "word")}
    vectors = data.ArrayLayout(filled_vector_layout(plan), plan.fill_vectors)
    return data.StructLayout(members | {"vectors": vectors})


FREES = data.StructLayout({"stream": 1, "held": 1, "west": 1})
"""Places in the scratchpads that are read for the last time: of what streams, of what is held, and
of what comes from the west in the fused pass."""


def slot_layout(plan: Plan) -> data.StructLayout:
    """What one slot of the array does, before the skew of its ports."""
    return data.StructLayout(
        {
            "valid": 1,
            "direction": 1,  # 0 south to east, 1 west to north
            "swap": 1,  # the next slot is the first of a pass: the loaded blocks become active
            "south_addr": range(plan.stream_words),
            "west_addr": range(plan.stream_words),
            "sum_addr": range(plan.sum_words),
            "fresh": 1,  # first slice of its contraction: overwrite, do not add
            "frees": FREES,  # with the last slot that reads them
            "done_east": 1,  # last slot of its output tile, per direction
            "done_north": 1,
        }
        # The slice is the first or the last of its chunk; ``fresh`` is of all of the first chunk.
        | dict.fromkeys(("begins", "ends") if plan.floats else (), 1)
    )


def held_read_layout(plan: Plan) -> data.StructLayout:
    """One held word on its way to the load ports, before the skew."""
    return data.StructLayout(
        {
            "valid": 1,
            "addr": range(plan.held_words),
            "row": range(max(plan.rows, 2)),
            "index": range(max(plan.block, 2)),
            "rows_valid": range(plan.rows + 1),  # blocks of the slice that the tensor has
            "cols_valid": range(plan.cols + 1),
        }
    )


def pass_layout(plan: Plan) -> data.StructLayout:
    slot = slot_layout(plan).members
    held = held_read_layout(plan).members
    return data.StructLayout(
        {
            "t_count": range(plan.tile_words + 1),
            "held_addr": held["addr"],
            "rows_valid": held["rows_valid"],
            "cols_valid": held["cols_valid"],
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
"""Of a pass, where sums of chunks are added as floats: its slice is the first of its chunk, or the
last."""


def span_layout(plan: Plan) -> data.StructLayout:
    """Rows of equal length, ``pitch`` apart: ``repeat`` of them."""
    vectors = plan.longest_row
    return data.StructLayout(
        {
            "addr": unsigned(ADDRESS_BITS),
            "cols": range(vectors * plan.block + 1),  # floats of a row
            "vectors": range(vectors + 1),  # of a row
            "repeat": range(plan.tile_words + 1),
        }
    )


SIZE = unsigned(EXTENT_BITS)


ADDRESS = unsigned(ADDRESS_BITS)


# What a product command says: sizes in elements, byte addresses of images and results, and its
# nest, whose lengths are the machine's own where they are 0. A tensor in vector groups has two
# images; each address is that of the one which the product reads.
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
"""What they say of the nest."""
