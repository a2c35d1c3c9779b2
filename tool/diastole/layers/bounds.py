"""Split the cycles of a product or of a conversion by cause, and find the bound of the work."""

from collections.abc import Iterable, Mapping

from diastole_sim.perf import Estimate
from diastole_sim.perf.conversion_estimate import ConversionEstimate

MULTIPLIERS, SHAPE, CONVERTER, LATENCY = "multipliers", "shape", "converter", "latency"
MEANINGS = {
    MULTIPLIERS: "the array multiplies elements of the layer",
    SHAPE: "the array multiplies padding, since the layer does not fill blocks and array",
    CONVERTER: "the converter has elements to convert",
    "start": "the array waits for the first blocks",
    "reading": "the array or the converter waits, and the bus reads",
    "loading": "the array waits, and blocks that were read are written into scratchpads",
    LATENCY: "requests wait for room in a scratchpad, or for the memory's answer",
    "swap": "a pass is shorter than the loading of the next stationary blocks",
    "writing": "the array or the converter waits, and the bus writes",
    "draining": "the array waits, and sums leave the accumulators",
    "end": "the last results are written",
}
"""Names of all shares of the cycles with a meaning in words, in the order of a product."""
BINDS = 0.9
"""Share of the multipliers at which the multipliers become the bound."""


def cycles_by_cause(cost: Estimate | ConversionEstimate) -> dict[str, float]:
    """Return the cycles by cause. The sum is ``cost.cycles``."""
    if isinstance(cost, ConversionEstimate):
        return _conversion_cycles(cost)
    used = min(float(cost.slots), cost.multiplications / cost.multipliers)
    parts = {MULTIPLIERS: used, SHAPE: cost.slots - used, **cost.waits}
    return {name: cycles for name, cycles in parts.items() if cycles}


def _conversion_cycles(cost: ConversionEstimate) -> dict[str, float]:
    """Split the cycles in which the converter idles. The bus is busy in the direction with more
    beats, for as many cycles as the beats exceed the converter's cycles. Latency takes the
    remaining cycles."""
    busy = {"reading": cost.read_beats, "writing": cost.write_beats}
    name = max(busy, key=lambda each: busy[each])
    idle = cost.cycles - cost.words
    bus = min(idle, max(0, busy[name] - cost.words))
    parts: dict[str, float] = {CONVERTER: cost.words, name: bus, LATENCY: idle - bus}
    return {name: cycles for name, cycles in parts.items() if cycles}


def shares_of(cycles: Mapping[str, float]) -> dict[str, float]:
    """Return the causes as parts of all cycles, in the order of :data:`MEANINGS`. The sum is 1."""
    whole = sum(cycles.values())
    return {name: cycles[name] / whole for name in MEANINGS if name in cycles}


def added_shares(every: Iterable[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """Return the sum of cycles by cause, with a number of times for every set of cycles."""
    sums: dict[str, float] = {}
    for times, cycles in every:
        for name, each in cycles.items():
            sums[name] = sums.get(name, 0) + times * each
    return sums


def bound_of(shares: Mapping[str, float]) -> str:
    """Return the multipliers for nine tenths of the cycles or more, or the cause with the largest
    remaining share."""
    others = {name: share for name, share in shares.items() if name != MULTIPLIERS}
    if shares.get(MULTIPLIERS, 0.0) >= BINDS or not others:
        return MULTIPLIERS
    return max(others, key=lambda name: others[name])


def percents(shares: Mapping[str, float]) -> dict[str, float]:
    """Return shares in percent, to a tenth of a percent, with a sum of 100. The loss of
    rounding down goes to the shares that lost most."""
    exact = {name: 1000 * share for name, share in shares.items()}
    counts = {name: int(value) for name, value in exact.items()}
    missing = 1000 - sum(counts.values())
    by_loss = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_loss[:missing]:
        counts[name] += 1
    return {name: count / 10 for name, count in counts.items()}
