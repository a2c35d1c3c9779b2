"""Area of stochastic rounding: what draws and rounds up, of a few lanes, as it is generated.

Beside each other: lanes of 24 random bits with a shift register of 24 bits each, and lanes that
share the pairs of ``lfsr3``, three bits each. Both round by the gates of the converter's lanes, and
step their registers when a word is taken.
"""

# pyright: standard, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# Hardware, which is checked as hw/ is: pyproject.toml says why.
from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.area import Mapper
from diastole.measure.figure import Figure, at_least, shown
from diastole_hw.convert.quantise import rounds_up
from diastole_hw.random.lfsr import LaneStates
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.lfsr import MAX_LFSR_BITS, PAIR_LFSR_BITS

TWO, FOUR = 2, 4
"""Lanes behind a bus of 64, of 128 bits."""
LEAST = {(TWO, False): 9.75, (TWO, True): 9.0, (FOUR, True): 14.0}
"""By lanes, and whether states are loaded, how many times smaller the pairs are to be, by rule A.
Of four lanes those that are not loaded are no unit: which element is inverted would be constant."""
RULES = ("stochastic-a", "stochastic-b")


KINDS = {
    "counter, 8 bits": {},
    "lfsr, 8 of 24 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 24},
    "lfsr3": {"kind": "lfsr3", "bits": 3},
    "data, 8 bits": {"kind": "data", "bits": 8},
}
"""By name, the keys of ``rounding`` of a whole machine."""


class RoundingLanes(wiring.Component):
    """Whether the elements of a word are rounded up, with what draws for them: a register for all
    lanes that steps once per pair of columns (``pairs``), or one of 24 bits for each.

    Timing: combinational; registers step, or load, in the cycle after.

    Members
    -------
    take : In(1)
        A word is taken.
    load : In(1)
    start : In(bits of all registers)
        Where they go on; only with ``loads``, else they go through their period.
    residues : In(lanes * (random bits + 1))
        What is dropped of each element, its first bits.
    up : Out(lanes)
    """

    def __init__(self, *, lanes: int, rule: str, pairs: bool, loads: bool):
        require_int("lanes", lanes, 2, 16)
        require_choice("rule", rule, RULES)
        self.lanes, self.rule, self.pairs, self.loads = lanes, rule, pairs, loads
        self.bits = PAIR_LFSR_BITS if pairs else MAX_LFSR_BITS
        self.state_bits = PAIR_LFSR_BITS + 1 if pairs else lanes * MAX_LFSR_BITS
        members = {
            "take": In(1),
            "residues": In(lanes * (self.bits + 1)),
            "up": Out(lanes),
        }
        loading = {"load": In(1), "start": In(self.state_bits)} if loads else {}
        super().__init__(members | loading)

    def elaborate(self, platform):
        m = Module()
        state = Signal(self.state_bits, init=1 if self.pairs else self._apart())
        if self.loads:
            state = Signal(self.state_bits, reset_less=True)
        lanes, sizes = self.lanes, {"random_bits": self.bits, "state_bits": self.bits}
        units = [
            LaneStates(lanes=lanes if self.pairs else 1, pairs=self.pairs, **sizes)
            for _ in range(1 if self.pairs else lanes)
        ]
        width = self.state_bits // len(units)
        for number, unit in enumerate(units):
            m.submodules[f"states{number}"] = unit
            m.d.comb += unit.state.eq(state.word_select(number, width))
        after, draws = (Cat(getattr(u, name) for u in units) for name in ("after", "draws"))
        with m.If(self.take):
            m.d.sync += state.eq(after)
        if self.loads:
            with m.If(self.load):
                m.d.sync += state.eq(self.start)
        for lane in range(lanes):
            residue = self.residues.word_select(lane, self.bits + 1)
            drawn = draws.word_select(lane, self.bits)
            up = rounds_up(self.rule, Const(0), residue, Const(0), drawn, self.bits)
            m.d.comb += self.up[lane].eq(up)
        return m

    def _apart(self) -> int:
        """Start states of registers of their own, which are not to draw alike."""
        return sum((lane + 1) << lane * MAX_LFSR_BITS for lane in range(self.lanes))


def area_of(mapper: Mapper, **parameters: Any) -> float:
    """NAND2 equivalents of :class:`RoundingLanes`."""
    return mapper.area_nand2(RoundingLanes(**parameters))


def figures(mapper: Mapper) -> Iterator[Figure]:
    """Two lanes and four, without and with loading, by both rules."""
    for (lanes, loads), least in LEAST.items():
        for rule in RULES:
            what = {"lanes": lanes, "loads": loads, "rule": rule}
            apart = area_of(mapper, pairs=False, **what)
            paired = area_of(mapper, pairs=True, **what)
            words = f"{lanes} lanes, {rule[-1].upper()}, {'with' if loads else 'without'} loading"
            per_two = (TWO * area / lanes for area in (apart, paired))
            yield Figure(
                what=f"NAND2 of two of {words}: 24 bits, lfsr3",
                asked="",
                measured=" / ".join(f"{area:.1f}" for area in per_two),
                met=None,
            )
            times, ratio = f"times smaller: {words}", apart / paired
            if rule == RULES[0]:
                yield at_least(times, ratio, least, "{:.2f}")
            else:
                yield shown(times, ratio, "{:.2f}")


def machines(mapper: Mapper) -> Iterator[Figure]:
    """The preset `nano`, dY alone rounded stochastically, by the kind of its draws."""
    for name, keys in KINDS.items():
        document = PRODUCTS_ONLY["nano"].model_dump(exclude_none=True)
        document["rounding"] |= keys
        area = mapper.machine(from_document(document)).whole
        yield shown(f"NAND2 equivalents of `nano`, draws by {name}", area, "{:,.0f}")
