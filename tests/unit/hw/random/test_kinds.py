# amaranth: UnusedElaboratable=no
"""The unit of every kind, with what its words are described by."""

import pytest

from diastole_hw.random.draws import Draws
from diastole_hw.random.kinds import draw_unit, word_place_layout
from diastole_hw.random.row_draws import RowDraws
from support.numerics import make_numerics

ORDER = {"block": 4, "rows": 32}


@pytest.mark.parametrize(
    "kind, unit, expected",
    [
        ({"random_bits": 9}, Draws, {"random_bits": 9, "rows": 4, "reader_never_stalls": True}),
        (
            {"rounding_kind": "lfsr", "lfsr_bits": 17, "random_bits": 9},
            RowDraws,
            {"random_bits": 9, "rows": 32, "state_bits": 17, "pairs": False},
        ),
        (
            {"rounding_kind": "lfsr3", "lfsr_bits": 17, "random_bits": 3},
            RowDraws,
            {"random_bits": 3, "rows": 32, "state_bits": 3, "pairs": True},
        ),
    ],
)
def test_units(kind, unit, expected):
    numerics = make_numerics(**kind)
    made = draw_unit(numerics, lanes=2, copies=2, reader_never_stalls=True, **ORDER)
    made._MustUse__silence = True  # it is looked at, not built
    assert type(made) is unit
    assert (made.lanes, made.copies) == (2, 2)
    assert {name: getattr(made, name) for name in expected} == expected
    assert made.i.p.shape() == word_place_layout(numerics, **ORDER)
