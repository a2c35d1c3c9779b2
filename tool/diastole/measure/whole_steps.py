"""What a training step on the digits takes that a machine does alone: cycles, bytes, area."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from diastole.backend import make_machine, program_limits
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.execution import Execution
from diastole.measure.figure import Figure, at_least, at_most, shown
from diastole_sim.host.bell import BellMachine
from diastole_sim.program.options import ProgramOptions
from diastole_sim.program.run import ProgramRun
from diastole_sim.train.tasks import find_task

FEWER, MORE = 3, 9
"""Steps of two runs from the start: what a step takes is the difference, of what is done once
nothing is left."""
LEAST_CYCLES_PER_SECOND = 300_000


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """``most``: cycles that are asked of it; ``most_kib``: of the bus, in a step."""

    name: str
    most: float
    keys: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    most_kib: float | None = None


CASES = (
    StepCase(name="nano", most=12_000, most_kib=48),
    StepCase(name="nano at 64 bits", keys={"bus": {"data_width": 64}}, most=15_500),
    StepCase(name="nano with 4 special lanes", keys={"vector": {"special": 4}}, most=11_500),
    StepCase(
        name="nano, adamw, panel of 128 KiB",
        keys={"vector": {"panel_kib": 128}},
        options={"optimizer": "adamw"},
        most=24_000,
    ),
)


def figures() -> Iterator[Figure]:
    """Of `nano` and its relatives, each with a vector unit."""
    for case in CASES:
        few, many = (_run(case, steps) for steps in (FEWER, MORE))
        steps = MORE - FEWER
        cycles = (many.cycles - few.cycles) / steps
        yield at_most(f"cycles of a step on digits, {case.name}", cycles, case.most, "{:,.0f}")
        for cause in many.waits:
            share = (many.waits[cause] - few.waits[cause]) / (many.cycles - few.cycles)
            yield shown(f"share of {cause}, {case.name}", share)
        if case.most_kib is not None:
            kib = (many.bytes - few.bytes) / steps / 1024
            yield at_most(f"KiB over the bus in it, {case.name}", kib, case.most_kib, "{:.1f}")
            what = f"simulated cycles per second, {case.name} with a vector unit"
            yield at_least(what, many.speed, LEAST_CYCLES_PER_SECOND, "{:,.0f}")


@dataclass(frozen=True, kw_only=True)
class _Run:
    cycles: int
    waits: dict[str, int]
    bytes: int
    speed: float


def configured_step(case: StepCase) -> Config:
    """The machine of a case."""
    document = PRODUCTS_ONLY["nano"].model_dump(exclude_none=True)
    document["vector"]["enable"] = True
    for table, keys in case.keys.items():
        document[table] |= keys
    return from_document(document)


def _run(case: StepCase, steps: int) -> _Run:
    """So many steps from the start."""
    config = configured_step(case)
    options = ProgramOptions(limits=program_limits(config), **case.options)
    made = options.program(find_task("digits"), config.numerics, steps=MORE, seed=0)
    with make_machine(Execution(), config, made.program) as machine:
        assert isinstance(machine, BellMachine)
        run = ProgramRun(program=made.program, machine=machine)
        run.train(steps)
        counted, traffic = dict(run.training), machine.machine.traffic()
        beats = traffic.read_beats + traffic.write_beats
        total = counted.pop("cycles_total")
        return _Run(
            cycles=total,
            waits=counted,
            bytes=beats * config.bus.data_width // 8,
            speed=machine.machine.cycles_per_second,
        )
