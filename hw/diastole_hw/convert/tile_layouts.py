"""Layouts in which the parts of the converter describe a tile, and a word of a tile in the
buffer."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from diastole_hw.random.draws import INDEX_BITS
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def walked_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of a tile, clipped to the tensor.

    ``address``: byte address of the first float of the tile. ``index``: index of the first element
    in the tensor. ``rows``, ``cols``: numbers of rows and columns inside the tensor. ``first_row``,
    ``first_col``, ``last_row``, ``last_col``: the tile lies in the first or last row or column of
    tiles.
    """
    return data.StructLayout(
        {
            "address": unsigned(ADDRESS_BITS),
            "index": unsigned(INDEX_BITS),
            "rows": range(sizes.max_tile_rows + 1),
            "cols": range(sizes.max_tile_cols + 1),
            "first_row": 1,
            "first_col": 1,
            "last_row": 1,
            "last_col": 1,
        }
    )


def requested_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of a tile's fields that a request for the data needs."""
    members = walked_layout(sizes).members
    return data.StructLayout({name: members[name] for name in ("address", "rows", "cols")})


def tile_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of a tile when its data arrive; ``address`` is the byte within the beat."""
    in_beat = {"address": unsigned(exact_log2(sizes.beat_bytes))}
    return data.StructLayout(dict(walked_layout(sizes).members) | in_beat)


def waiting_tile_layout(sizes: ConverterSizes, *, in_patches: bool) -> data.StructLayout:
    """Return the layout of a tile in a queue. The index is present only if tensors may come in
    patches."""
    members = tile_layout(sizes).members.items()
    fields = {name: shape for name, shape in members if in_patches or name != "index"}
    return data.StructLayout(fields)


def word_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of the place of a word in the buffer: the place in the tile, and the half
    of the buffer that holds the tile."""
    return data.StructLayout(
        {
            "word": range(sizes.tile_row_words),
            "row": range(sizes.max_tile_rows),
            "half": unsigned(sizes.tile_number_bits),
        }
    )
