"""Model equal layers on many machines: keys of a configuration, each with several values."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from diastole.config.file import toml_value
from diastole.config.keys import Config
from diastole.errors import BadInput, CheckFailed
from diastole.files.layers import NamedLayer
from diastole.layers.layer_costs import Mapped, NestEstimate, Product, layer_costs, total
from diastole.layers.layer_widths import widths_of
from diastole.layers.machine_size import MachineSize, machine_size
from diastole.workers import end_with, usable_cores
from diastole_sim.spec.require import excerpt

MAX_MACHINES = 10_000


@dataclass(frozen=True, kw_only=True)
class SweptMachine:
    """A machine of a sweep, given by ``overrides`` ("array.rows=4"), with the total cost of the
    layers, or with the reasons in ``refused`` why the machine cannot exist."""

    overrides: tuple[str, ...]
    size: MachineSize | None = None
    total: dict[str, Any] | None = None
    refused: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the record for ``--json``."""
        size = {} if self.size is None else self.size.record()
        total = self.total or {}
        keys = dict(text.split("=", 1) for text in self.overrides)
        return {"set": keys, **size, **total, "refused": list(self.refused)}


@dataclass(frozen=True, kw_only=True)
class Front:
    """Machines that no machine beats: ordered by area, with fewer cycles than all smaller machines.

    - ``measure``: field of :class:`MachineSize` for the area: the NAND2 equivalents of all cells,
      or the multipliers if no machine has measured cells.
    - ``unknown``: number of machines without measured cells, if some machines have measured cells.
    """

    machines: tuple[SweptMachine, ...]
    measure: str
    unknown: int

    @classmethod
    def of(cls, machines: Sequence[SweptMachine]) -> "Front":
        """Return the front of machines. At least one machine must exist."""
        there = [each for each in machines if each.size is not None]
        measured = [each for each in there if each.size and each.size.cells_nand2 is not None]
        measure = "cells_nand2" if measured else "multipliers"
        whole = cls(machines=(), measure=measure, unknown=len(there) - len(measured or there))
        best: list[SweptMachine] = []
        for each in sorted(measured or there, key=whole._rank):
            if not best or whole._rank(each)[1] < whole._rank(best[-1])[1]:
                best.append(each)
        return cls(machines=tuple(best), measure=measure, unknown=whole.unknown)

    def area(self, machine: SweptMachine) -> float | None:
        """Return the area of a machine, None for an unknown area."""
        return None if machine.size is None else getattr(machine.size, self.measure)

    def _rank(self, machine: SweptMachine) -> tuple[float, int, float]:
        """Return the area, the cycles, and the size of the memories, which decides between equal
        machines."""
        assert machine.size is not None
        assert machine.total is not None
        kib = machine.size.scratchpad_kib + machine.size.sum_kib
        return self.area(machine) or 0, machine.total["cycles"], kib


def every_choice(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every choice of a value per key, for texts such as "KEY=A,B" and "OTHER=C,D". The last
    key changes fastest. BadInput for a wrong text, a repeated key or value, or too many choices."""
    choices: list[list[str]] = []
    keys: set[str] = set()
    for text in texts:
        key, equals, values = text.partition("=")
        accepted = [value.strip() for value in split_values(values)]
        if not equals or not key.strip() or not all(accepted):
            raise BadInput(f"--over must be KEY=VALUE,VALUE,..., not {text}")
        if same_key(key) in keys:
            raise BadInput(
                f"--over: {key.strip()} is given twice; give all values in a single --over"
            )
        keys.add(same_key(key))
        _refuse_repeated(key.strip(), accepted)
        choices.append([f"{key.strip()}={value}" for value in accepted])
    combinations = list(product(*choices))
    if len(combinations) > MAX_MACHINES:
        raise BadInput(
            f"--over gives {len(combinations)} machines, more than the limit of {MAX_MACHINES}"
        )
    return combinations


def split_values(text: str) -> list[str]:
    """Return the values between commas. A comma within brackets, braces or quotes belongs to its
    value, as in ``[2,4],[2,8]`` and ``"32,32",64``."""
    values, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not quote and depth <= 0:
            values.append("")
        else:
            values[-1] += letter
    return values


def _refuse_repeated(key: str, values: Sequence[str]) -> None:
    """Raise BadInput if two values are equal, in whatever spelling: 2 and 0x2, or a text with and
    without quotes."""
    seen: dict[str, str] = {}
    for value in values:
        meaning = repr(toml_value(value))
        if meaning in seen:
            pair = f"{value} twice" if value == seen[meaning] else f"{seen[meaning]} and {value}"
            raise BadInput(f"--over: {key} has {excerpt(pair)}: give each value once")
        seen[meaning] = value


def same_key(key: str) -> str:
    """Return a common form of all spellings of a key: options of `train` have two spellings."""
    return key.strip().replace("-", "_")


def merge_overrides(overrides: Sequence[str], choice: Sequence[str]) -> list[str]:
    """Return the overrides of --set without the keys of a choice, then the choice. Values of --over
    go before the value that --set gives to all machines."""
    keys = {same_key(text.partition("=")[0]) for text in choice}
    remaining = [text for text in overrides if same_key(text.partition("=")[0]) not in keys]
    return [*remaining, *choice]


@contextmanager
def on_all_cores() -> Generator[Mapped]:
    """Yield a ``map`` that works in a process per core, with results in order."""
    cores = usable_cores()
    if cores == 1:
        yield map
        return
    # Spawned: a fork may copy locks of threads without the threads.
    context = multiprocessing.get_context("spawn")
    former = multiprocessing.active_children()
    begin = partial(_begin, os.getpid())
    with ProcessPoolExecutor(cores, mp_context=context, initializer=begin) as pool:
        try:
            yield partial(_map, pool)
        except BaseException as error:
            for worker in multiprocessing.active_children():
                if worker not in former:
                    worker.kill()
            if isinstance(error, BrokenExecutor):
                raise CheckFailed(
                    "a process ended before the end of the work, for example because memory ran out"
                ) from None
            raise


def _map(
    pool: ProcessPoolExecutor, function: Callable[[Product], NestEstimate], products: list[Product]
) -> list[NestEstimate]:
    """Map as ``pool.map`` does. ``pool.map`` would cancel work after a worker is killed, and Python
    would report the cancelled work as a mistake of ours."""
    futures = [pool.submit(function, product) for product in products]
    return [future.result() for future in futures]


def _begin(parent: int) -> None:
    """Prepare a worker. The parent answers Ctrl-C and a closed terminal, and the worker ends with
    the parent."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end_with(parent)


def configurations(
    texts: Sequence[str], read: Callable[[Sequence[str]], Config]
) -> list[tuple[tuple[str, ...], Config | BadInput]]:
    """Return every machine of :func:`every_choice`, or the error of a combination that is no
    machine. ``read`` makes a configuration from overrides. BadInput if no combination is a
    machine."""
    results: list[tuple[tuple[str, ...], Config | BadInput]] = []
    for overrides in every_choice(texts):
        try:
            results.append((overrides, read(overrides)))
        except BadInput as error:
            results.append((overrides, error))
    if all(isinstance(each, BadInput) for _, each in results):
        problems = (
            text for _, each in results if isinstance(each, BadInput) for text in each.problems
        )
        raise BadInput(*(text.replace("--set:", "--over:") for text in dict.fromkeys(problems)))
    return results


def swept(
    machines: Sequence[tuple[tuple[str, ...], Config | BadInput]],
    layers: Sequence[NamedLayer],
    phases: Sequence[str],
    latency: int,
    requested_widths: Mapping[str, int] | None = None,
    clock_mhz: float | None = None,
) -> Iterator[SweptMachine]:
    """Yield the costs of the layers on each machine, in order, on all cores.

    ``requested_widths``: widths for every machine, from
    :func:`diastole.layers.layer_widths.parse_widths`.
    """
    with on_all_cores() as mapped:
        for overrides, config in machines:
            if isinstance(config, BadInput):
                yield SweptMachine(
                    overrides=overrides,
                    refused=tuple(text.removeprefix("--set: ") for text in config.problems),
                )
                continue
            widths = widths_of(config.numerics, requested_widths or {})
            costs = layer_costs(config, layers, phases, latency, mapped, widths)
            yield SweptMachine(
                overrides=overrides,
                size=machine_size(config),
                total=total(costs, config.macs, clock_mhz),
            )
