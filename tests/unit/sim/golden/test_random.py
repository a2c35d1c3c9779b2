"""The generator: published answers, an independent scalar form, and statistics.

Seeds are fixed, so the statistics do not vary. Every bound is 5 standard deviations of what ideal
draws give: about one such test in two million would fail by chance.
"""

import math

import numpy as np
import pytest

from diastole_sim.golden.random import tensor_draws, threefry2x32
from oracle import threefry as oracle

SIGMAS = 5.0
KNOWN = [  # Random123's kat_vectors, threefry2x32, 20 rounds: counter, key, result
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("counter, key, result", KNOWN)
def test_published_answers(counter, key, result):
    assert tuple(word.item() for word in threefry2x32(key, counter)) == result
    assert oracle.threefry2x32(key, counter) == result


def test_arrays_and_scalars_agree(np_rng):
    key = tuple(int(word) for word in np_rng.integers(0, 2**32, 2))
    counters = np_rng.integers(0, 2**32, (2, 500), dtype=np.uint32)
    low, high = threefry2x32(key, (counters[0], counters[1]))
    for place in range(500):
        counter = int(counters[0, place]), int(counters[1, place])
        want = oracle.threefry2x32(key, counter)
        assert (int(low[place]), int(high[place])) == want, f"{key=} {counter=}"


@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 3), (3, 5), (7, 4), (31, 32)])
@pytest.mark.parametrize("bits", [1, 5, 8, 9, 13, 16])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.sampled(3)
def test_draws_are_those_of_the_index(rows, columns, bits, second):
    where = {"seed": 0xDEADBEEF, "tag": 6, "step": 1000, "bits": bits, "second": second}
    draws = tensor_draws((rows, columns), **where)
    assert draws.shape == (rows, columns)
    for row in range(rows):
        for column in range(columns):
            want = oracle.draw(index=row * columns + column, **where)
            assert draws[row, column] == want, (row, column)


def field(*, seed=1, tag=2, step=3, bits=16, rows=512, columns=512):
    return tensor_draws((rows, columns), seed=seed, tag=tag, step=step, bits=bits)


@pytest.mark.parametrize("bits", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("step", [0, 1, 77])
@pytest.mark.sampled(3)
def test_mean_has_no_bias(bits, step):
    draws = field(bits=bits, step=step)
    top = 2**bits
    deviation = math.sqrt((top**2 - 1) / 12 / draws.size)
    assert abs(draws.mean() - (top - 1) / 2) < SIGMAS * deviation


def test_every_bit_and_every_place_is_even():
    draws = field().reshape(-1, 4)
    for place in range(4):  # the four draws that share a counter
        for bit in range(16):
            ones = (draws[:, place] >> bit & 1).mean()
            assert abs(ones - 0.5) < SIGMAS * 0.5 / math.sqrt(len(draws)), (place, bit)


@pytest.mark.parametrize("bits", [4, 8, 10])
@pytest.mark.parametrize("seed", [0, 1, 0xFFFFFFFF])
def test_uniform_by_chi_squared(bits, seed):
    draws = field(bits=bits, seed=seed)
    expected = draws.size / 2**bits
    counts = np.bincount(draws.ravel(), minlength=2**bits)
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    freedom = 2**bits - 1
    assert abs(chi2 - freedom) < SIGMAS * math.sqrt(2 * freedom)


def test_pairs_of_neighbours_are_uniform():
    draws = field(bits=4)
    pairs = (draws[:, :-1] * 16 + draws[:, 1:]).ravel()
    expected = pairs.size / 256
    chi2 = float(((np.bincount(pairs, minlength=256) - expected) ** 2 / expected).sum())
    assert abs(chi2 - 255) < SIGMAS * math.sqrt(2 * 255)


def correlation(a, b):
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8])
@pytest.mark.sampled(3)
def test_neighbours_in_element_and_row_do_not_correlate(bits, lag):
    draws = field(bits=bits)
    for a, b in ((draws[:, :-lag], draws[:, lag:]), (draws[:-lag], draws[lag:])):
        assert abs(correlation(a, b)) < SIGMAS / math.sqrt(a.size)


@pytest.mark.parametrize("bits", [1, 8, 16])
@pytest.mark.parametrize("what", ["step", "tag", "seed"])
@pytest.mark.parametrize("other", [0, 4, 5, 1 << 31])
@pytest.mark.sampled(3)
def test_neighbours_in_step_tensor_and_seed_do_not_correlate(bits, what, other):
    a, b = field(bits=bits), field(bits=bits, **{what: other})
    assert abs(correlation(a, b)) < SIGMAS / math.sqrt(a.size)
    assert abs((a == b).mean() - 2.0**-bits) < SIGMAS * math.sqrt(2.0**-bits / a.size)


def test_roles_of_the_words_are_not_exchanged():
    """Tag 5 of step 9 is not tag 9 of step 5, nor is the seed the tag."""
    fields = [
        field(seed=a, tag=b, step=c, rows=16, columns=16)
        for a, b, c in [(1, 5, 9), (1, 9, 5), (5, 1, 9), (9, 5, 1)]
    ]
    for number, one in enumerate(fields):
        for other in fields[:number]:
            assert (one == other).mean() < 0.05
