"""Choose the unit that draws random bits for a kind of rounding, and the layout of a word's
place."""

from amaranth.lib import data, wiring

from diastole_hw.random.draws import Draws, place_layout
from diastole_hw.random.row_draws import RowDraws, row_place_layout
from diastole_sim.spec.numerics import Numerics


def word_place_layout(numerics: Numerics, *, block: int, rows: int) -> data.StructLayout:
    """Return the layout of a word's place, as the unit of the kind (:func:`draw_unit`) takes the
    place."""
    if numerics.draws_by_rows:
        return row_place_layout(rows)
    return place_layout(block)


def draw_unit(
    numerics: Numerics, *, lanes: int, copies: int, block: int, rows: int, reader_never_stalls: bool
) -> wiring.Component:
    """Return the unit that draws random bits for the kind of rounding.

    ``block``: rows whose words alternate, the rows of a block. ``rows``: rows of a tile, which come
    again in the next tile. ``reader_never_stalls``: as in :class:`Draws`. All kinds have ``i``,
    ``o``, ``seed``, ``tag`` and ``step``. Kinds that draw by rows also have ``start`` and
    ``height``.
    """
    bits = numerics.random_bits
    if not numerics.draws_by_rows:
        return Draws(
            lanes=lanes,
            random_bits=bits,
            copies=copies,
            rows=block,
            reader_never_stalls=reader_never_stalls,
        )
    return RowDraws(
        lanes=lanes,
        random_bits=bits,
        state_bits=numerics.state_bits,
        pairs=numerics.rounding_kind == "lfsr3",
        copies=copies,
        rows=rows,
    )
