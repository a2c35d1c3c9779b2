"""What the parts of the converter tell each other of a tile, and of its words in the buffer."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from diastole_hw.random.draws import INDEX_BITS
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def walked_layout(sizes: ConverterSizes) -> data.StructLayout:
    """One tile, clipped to the tensor.

    ``address``: of its first float, bytes. ``index``: of its first element in the tensor.
    ``rows``, ``cols``: how many lie in the tensor. ``first_row``, ``first_col``, ``last_row``,
    ``last_col``: it lies in the first or last row or column of tiles.
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


def asked_layout(sizes: ConverterSizes) -> data.StructLayout:
    """What is needed of it to ask for its data."""
    members = walked_layout(sizes).members
    return data.StructLayout({name: members[name] for name in ("address", "rows", "cols")})


def tile_layout(sizes: ConverterSizes) -> data.StructLayout:
    """What is needed of it when they come; ``address`` is that in the beat."""
    in_beat = {"address": unsigned(exact_log2(sizes.beat_bytes))}
    return data.StructLayout(dict(walked_layout(sizes).members) | in_beat)


def waiting_tile_layout(sizes: ConverterSizes, *, in_patches: bool) -> data.StructLayout:
    """A tile in a queue: with its index only where tensors may come in patches."""
    members = tile_layout(sizes).members.items()
    kept = {name: shape for name, shape in members if in_patches or name != "index"}
    return data.StructLayout(kept)


def word_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Where a word lies in the buffer: its place in a tile, and which tile of the buffer."""
    return data.StructLayout(
        {
            "word": range(sizes.tile_row_words),
            "row": range(sizes.max_tile_rows),
            "half": unsigned(sizes.half_bits),
        }
    )
