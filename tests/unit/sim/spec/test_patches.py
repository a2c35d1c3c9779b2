"""Which patches of tensors a converter takes."""

import pytest

from diastole_sim.spec.patches import PatchLimits

LIMITS = PatchLimits(tiles=((1, 8), (4, 16), (8, 8)), kept_rows=16)
X, W, DY = range(3)


@pytest.mark.parametrize(
    "cls, blocks, patch, by_columns, taken",
    [
        (X, (64, 64), (2, 8), False, True),
        (X, (64, 64), (3, 24), False, True),  # several tiles that are one block high
        (X, (64, 64), (2, 4), False, False),
        (X, (64, 64), (2, 12), False, False),
        (X, (16, 64), (2, 8), True, True),  # maxima of all rows wait
        (X, (17, 64), (2, 8), True, False),
        (X, (64, 64), (16, 8), False, True),  # those of a patch
        (X, (64, 64), (17, 8), False, False),
        (X, (9, 64), (32, 8), False, True),  # or of what there is
        (W, (64, 64), (4, 16), False, True),
        (W, (64, 64), (12, 16), False, True),
        (W, (64, 64), (4, 32), False, False),  # tiles beside each other that are higher
        (W, (64, 64), (4, 8), False, False),
        (W, (64, 64), (6, 16), False, False),
        (W, (6, 64), (6, 16), False, True),  # all rows
        (W, (5, 64), (6, 16), True, True),
        (DY, (64, 64), (8, 8), False, True),
        (DY, (64, 64), (4, 8), False, False),
        (3, (64, 64), (8, 8), False, False),  # no class
    ],
)
def test_what_is_taken(cls, blocks, patch, by_columns, taken):
    assert LIMITS.accepts(cls, blocks, patch, by_columns=by_columns) == taken


def test_as_a_manifest_has_it():
    assert LIMITS.to_dict() == {"tiles": [[1, 8], [4, 16], [8, 8]], "kept_rows": 16}
    assert PatchLimits.from_dict(LIMITS.to_dict()) == LIMITS
