"""The unit that hands out the draws of a kind, and what it asks of a word."""

from amaranth.lib import data, wiring

from diastole_hw.random.draws import Draws, place_layout
from diastole_hw.random.row_draws import RowDraws, row_place_layout
from diastole_sim.spec.numerics import Numerics


def word_place_layout(numerics: Numerics, *, block: int, rows: int) -> data.StructLayout:
    """Where a word lies, as the unit of its kind takes it: :func:`draw_unit`."""
    if numerics.draws_by_rows:
        return row_place_layout(rows)
    return place_layout(block)


def draw_unit(
    numerics: Numerics, *, lanes: int, copies: int, block: int, rows: int, prompt: bool
) -> wiring.Component:
    """``block``: rows whose words come in turns, a block's; ``rows``: those of a tile, which come
    again in the next one; ``prompt``: as of :class:`Draws`. All kinds have ``i``, ``o``, ``seed``,
    ``tag`` and ``step``; those by rows ``start`` and ``height`` too."""
    bits = numerics.random_bits
    if not numerics.draws_by_rows:
        return Draws(lanes=lanes, random_bits=bits, copies=copies, rows=block, prompt=prompt)
    return RowDraws(
        lanes=lanes,
        random_bits=bits,
        state_bits=numerics.state_bits,
        pairs=numerics.rounding_kind == "lfsr3",
        copies=copies,
        rows=rows,
    )
