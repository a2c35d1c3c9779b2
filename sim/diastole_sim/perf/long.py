"""Estimate long products: pass over repeated rounds of loops.

After some rounds of a loop all units of the machine return to the state of some rounds before, only
later. From this point on the rounds between the two states repeat, and their time repeats too.
While units only wait for other units and make no choices, a state that is off by some cycles leads
to times per round that are off by no more cycles. A nearly equal state is therefore sufficient.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import prod

from diastole_sim.perf.axes import Axis, Stretch, exact
from diastole_sim.perf.chunk_walk import ChunkWalk
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment
from diastole_sim.perf.product_estimate import Estimate, estimate, run_whole
from diastole_sim.perf.product_run import ProductRun
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.sizes.uses import WIDEST, Widths

FEW = 128
"""Number of rounds of all loops up to which every chunk is walked."""
SLACK, PATIENCE = 1 / 200, 32
"""Largest difference between states that count as equal, relative to the time between the states,
and the number of rounds after which it applies. Before, a part of the difference is allowed."""
REMEMBERED = 8
"""States remembered for every place in the period of a loop."""


def estimate_long(
    machine: ModelledMachine,
    op: str,
    m: int,
    n: int,
    k: int,
    nest: Nest = DEFAULT_NEST,
    widths: Widths = WIDEST,
) -> Estimate:
    """Estimate as :func:`estimate` does, in a time that hardly grows with the sizes. Repeated
    rounds of loops are passed over, which changes the cycles by 0.5 % at most. Beats are exact."""
    return estimate(machine, op, m, n, k, nest, widths, runner=run_long)


def run_long(run: ProductRun, walk: ChunkWalk) -> None:
    """Take a command through the chunks of all loops, except repeated rounds."""
    if prod(axis.count for axis in walk.axes) <= FEW:
        run_whole(run, walk)
        return
    walk.alike = True
    _Loop(run, walk, ()).run()
    run.read_maxima(walk.maxima_beats)


@dataclass(frozen=True)
class _State:
    """State of the units, and all counts up to this state."""

    moment: Moment
    counted: Counter[str]

    @classmethod
    def of(cls, run: ProductRun) -> "_State":
        return cls(run.moment(), run.counted)


@dataclass
class _Record:
    """Record before a round of a loop. ``state`` is present in outer loops, and if the glance
    resembled an earlier one."""

    number: int
    now: int
    summary: Moment
    state: _State | None = None


@dataclass
class _Loop:
    """Loop inside outer loops, which are at the ``steps``."""

    command: ProductRun
    walk: ChunkWalk
    steps: tuple[Stretch, ...]
    records: dict[int, list[_Record]] = field(default_factory=dict[int, list[_Record]])

    def run(self) -> None:
        """Run all rounds."""
        axis, number = self.walk.axes[len(self.steps)], 0
        while number < axis.count:
            steps = (*self.steps, axis.at(number))
            if len(steps) < len(self.walk.axes):
                _Loop(self.command, self.walk, steps).run()
            else:
                for chunk in self.walk.chunks(*steps):
                    self.command.chunk(chunk)
            number += 1
            number += self._pass_over(number, axis)

    def _pass_over(self, number: int, axis: Axis) -> int:
        """Pass over the rounds before the last round that repeat; return their number. The full
        state is compared only if the glance resembles the glance of an earlier round."""
        remaining = axis.count - 1 - number
        if remaining < axis.period:
            return 0
        command = self.command
        record = _Record(number, command.now, command.summary)
        if len(self.steps) + 1 < len(self.walk.axes):  # a long round: its state is worth the time
            record.state = _State.of(command)
        records = self.records.setdefault(number % axis.period, [])
        for earlier in reversed(records):
            slack = int((record.now - earlier.now) * SLACK * min(1, number / PATIENCE))
            if number - earlier.number > remaining:
                break
            if not record.summary.near(earlier.summary, slack):
                continue
            record.state = record.state or _State.of(command)
            if earlier.state is None or not record.state.moment.near(earlier.state.moment, slack):
                continue
            rounds = self._repeat(earlier, record, remaining, axis)
            if rounds:
                records.clear()
                return rounds
        records.append(record)
        del records[:-REMEMBERED]
        return 0

    def _repeat(self, earlier: _Record, record: _Record, remaining: int, axis: Axis) -> int:
        """Pass over as many rounds as repeat the rounds between two records; return their
        number."""
        assert earlier.state is not None
        assert record.state is not None
        counted = Counter(record.state.counted)
        counted.subtract(earlier.state.counted)
        bits = axis.total.bit_length() - (earlier.number * axis.step).bit_length()
        if exact(axis, self.walk.axes) and not self.command.in_time(counted, bits):
            same = axis.same_bits(record.number)
            if same != axis.same_bits(earlier.number):
                return 0
            remaining = min(remaining, same - record.number)
        rounds = record.number - earlier.number
        self.command.pass_over(remaining // rounds, record.now - earlier.now, counted)
        return remaining // rounds * rounds
