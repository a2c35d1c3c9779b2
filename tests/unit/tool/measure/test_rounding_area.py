# amaranth: UnusedElaboratable=no
"""Lanes whose area is measured round as they should, and are measured as they are asked for."""

import pytest
from amaranth.hdl import Fragment

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.area import MachineArea, Mapper
from diastole.measure.rounding_area import LEAST, RoundingLanes, area_of, figures, machines
from oracle.lfsr import state_after
from oracle.rounding import round_fraction
from support.bench import design, run
from support.texts import exactly


def rounded_up(rule, residue, draw, bits):
    """A part of so many bits and one more, as a fraction of a unit."""
    part = residue / 2 ** (bits + 1)
    return round_fraction(rule, part, draw, bits)


@pytest.mark.parametrize("rule", ["stochastic-a", "stochastic-b"])
@pytest.mark.parametrize("lanes, pairs", [(2, True), (4, True), (2, False)])
@pytest.mark.parametrize("loads", [False, True])
def test_they_round(rule, lanes, pairs, loads, rng):
    """Register and inverse, or a register for each; a word that is not taken moves nothing."""
    dut = design(RoundingLanes, lanes=lanes, rule=rule, pairs=pairs, loads=loads)
    bits = 3 if pairs else 24
    states = [1] if pairs else [1, 2]
    exchanged = 0

    async def main(ctx):
        nonlocal states, exchanged
        if loads:
            states = [rng.randrange(1, 2**bits) for _ in states]
            exchanged = rng.randrange(2)
            packed = sum(state << bits * n for n, state in enumerate(states))
            ctx.set(dut.start, packed | exchanged << 3 if pairs else packed)
            ctx.set(dut.load, 1)
            await ctx.tick()
            ctx.set(dut.load, 0)
        column = 0
        for _ in range(60):
            residues = [rng.getrandbits(bits + 1) for _ in range(lanes)]
            ctx.set(dut.residues, sum(r << n * (bits + 1) for n, r in enumerate(residues)))
            up = ctx.get(dut.up)
            for lane, residue in enumerate(residues):
                if pairs:
                    place = column + lane
                    state = state_after(3, states[0], place // 2)
                    draw = (state, 7 - state)[(place + place // 2 + exchanged) % 2]
                else:
                    draw = state_after(24, states[lane], column // lanes)
                assert up >> lane & 1 == rounded_up(rule, residue, draw, bits), (column, lane)
            take = rng.randrange(2)
            ctx.set(dut.take, take)
            await ctx.tick()
            column += lanes * take

    run(dut, main)


class Sizes:
    """A mapper to which registers for each are so many times as large."""

    def __init__(self, times):
        self.times, self.asked = times, []

    def area_nand2(self, component):
        Fragment.get(component, None)
        self.asked.append((component.lanes, component.loads, component.rule, component.pairs))
        return 10.0 * component.lanes * (1 if component.pairs else self.times)


@pytest.mark.parametrize("times, met", [(14.0, [True] * 3), (9.1, [False, True, False])])
def test_figures(times, met):
    mapper = Sizes(times)
    found = list(figures(mapper))
    assert [each.met for each in found if each.met is not None] == met
    assert (found[0].what, found[0].measured) == (
        "NAND2 of two of 2 lanes, A, without loading: 24 bits, lfsr3",
        f"{20 * times:.1f} / 20.0",
    )
    assert (found[1].what, found[1].asked) == (
        "times smaller: 2 lanes, A, without loading",
        "at least 9.75",
    )
    assert len(set(mapper.asked)) == len(mapper.asked) == 4 * len(LEAST)


class Machines:
    """A mapper that takes the first machine for a million gates, and each after it for less."""

    def __init__(self):
        self.asked = []

    def machine(self, config):
        self.asked.append(config.rounding)
        return MachineArea(whole=1_000_000 - len(self.asked), cells=1)


def test_whole_machines():
    mapper = Machines()
    found = list(machines(mapper))
    assert found[2].what == "NAND2 equivalents of `nano`, draws by lfsr3"
    assert [each.measured for each in found] == ["999,999", "999,998", "999,997", "999,996"]
    assert [(each.kind, each.bits) for each in mapper.asked] == [
        ("counter", 8),
        ("lfsr", 8),
        ("lfsr3", 3),
        ("data", 8),
    ]
    assert mapper.asked[0] == PRODUCTS_ONLY["nano"].rounding


def test_two_lanes_of_the_pairs_are_small():
    area = area_of(Mapper.find(), lanes=2, rule="stochastic-a", pairs=True, loads=True)
    assert 60 < area < 75


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lanes": 1}, "lanes must be an integer in 2..16, not 1"),
        ({"rule": "nearest"}, "rule must be one of stochastic-a, stochastic-b, not 'nearest'"),
    ],
)
def test_errors(change, message):
    given = {"lanes": 2, "rule": "stochastic-a", "pairs": True, "loads": False}
    with pytest.raises(ValueError, match=exactly(message)):
        RoundingLanes(**given | change)
