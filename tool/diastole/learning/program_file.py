"""Write and read a program: a sealed file with everything that a machine needs to train and to
evaluate a network.

The tensors are ``initial.AREA``, the bytes with which a host fills an area before the first run,
commands included. The record has the configuration of the machine, the seed, the places of all
areas, and what trains.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diastole.backend import program_limits
from diastole.config.file import from_document, to_toml
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files.sealed_file import PROGRAM, SealedFile, part_of, prefixed
from diastole_sim.program.memory_plan import Life, PlannedArea
from diastole_sim.program.program import (
    EVALUATION,
    LOSSES,
    OUTPUT,
    TRAINING,
    TrainingProgram,
)
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import MalformedCommandError
from diastole_sim.spec.command_table import ADDRESS_BITS, COMMAND_BYTES, Opcode
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.require import require_int
from diastole_sim.train.loss_scaling import LossScaling

INITIAL = "initial."


@dataclass(frozen=True, kw_only=True)
class ProgramFile:
    """Program with the machine for which the program was built.

    - ``config``: configuration of the machine. ``seed``: seed of all random bits.
    - ``about``: what trains, as plain values: name of the task or of the network, and options.
    """

    config: Config
    seed: int
    program: TrainingProgram
    about: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the file, completely or not at all."""
        program, scaling = self.program, self.program.loss_scaling
        plan = {
            "resume": program.resume,
            "steps": program.steps,
            "memory_bytes": program.memory_bytes,
            "parameters": list(program.parameters),
            "state": list(program.state),
            "frozen": list(program.frozen),
            "layers": list(program.layers),
            "areas": [asdict(area) for area in program.areas.values()],
            "panel": {name: list(place) for name, place in program.panel.items()},
            "loss_scaling": None if scaling is None else asdict(scaling),
        }
        record = {
            "configuration": to_toml(self.config),
            "seed": self.seed,
            "plan": plan,
            "about": self.about,
        }
        areas = {name: np.frombuffer(data, np.uint8) for name, data in program.initial.items()}
        SealedFile(kind=PROGRAM, record=record, tensors=prefixed(INITIAL, areas)).write(path)

    @classmethod
    def read(cls, path: Path) -> "ProgramFile":
        """Return the contents of a file. BadInput if the file is no program, or not exactly what
        :meth:`write` writes."""
        found = SealedFile.read(path, PROGRAM)
        try:
            return cls._of(path, found)
        except MalformedCommandError as error:
            raise BadInput(f"{path}: has a command that the machine refuses: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{path}: is not a program of this version: {error}") from None

    @classmethod
    def _of(cls, path: Path, found: SealedFile) -> "ProgramFile":
        record, plan = found.record, found.record["plan"]
        config = from_document(tomllib.loads(record["configuration"]), source=str(path))
        limits = program_limits(config)
        initial = {name: data.tobytes() for name, data in part_of(found.tensors, INITIAL).items()}
        areas = [_area(each) for each in plan["areas"]]
        scaling = plan["loss_scaling"]
        program = TrainingProgram(
            training=_commands(initial[TRAINING], limits),
            evaluation=_commands(initial[EVALUATION], limits),
            areas={area.name: area for area in areas},
            initial=initial,
            panel={name: (first, end) for name, (first, end) in plan["panel"].items()},
            loss_scaling=None if scaling is None else _scaling(scaling),
            resume=plan["resume"],
            steps=plan["steps"],
            memory_bytes=plan["memory_bytes"],
            parameters=tuple(plan["parameters"]),
            state=tuple(plan["state"]),
            frozen=tuple(plan["frozen"]),
            layers=tuple(plan["layers"]),
        )
        _check(program, record)
        return cls(config=config, seed=record["seed"], program=program, about=record["about"])


def _check(program: TrainingProgram, record: Mapping[str, Any]) -> None:
    """Check that the parts of a program belong together. ValueError, TypeError or LookupError
    otherwise."""
    require_int("seed", record["seed"], 0, 2**32 - 1)
    require_int("steps", program.steps, 1, 2**32 - 2)
    require_int("memory_bytes", program.memory_bytes, 1, 2**ADDRESS_BITS)
    require_int("batch", record["about"]["batch"], 1, 2**32 - 1)
    if not isinstance(record["about"]["task"], str):
        raise ValueError("the task must be a text")
    ends = [n for n, each in enumerate(program.training) if each.opcode == Opcode.NEXT]
    if len(ends) != 1 or program.training[ends[0]].target > ends[0] or not program.evaluation:
        raise ValueError("the commands are no step that repeats and an evaluation")
    require_int("resume", program.resume, 0, program.training[ends[0]].target)
    if len(program.layers) != len(program.training):
        raise ValueError("every command needs a layer, or null")
    for area in program.areas.values():
        require_int(f"address of {area.name}", area.address, 0, program.memory_bytes)
        require_int(f"length of {area.name}", area.length, 0, program.memory_bytes - area.address)
    for name, data in program.initial.items():
        if len(data) != program.areas[name].length:
            raise ValueError(f"{name} has {len(data)} bytes, unlike the area")
    for name in (LOSSES, OUTPUT, *program.parameters, *program.state, *program.frozen):
        program.areas[name]
    scaling = program.loss_scaling
    if scaling is not None:
        for name in ("smallest", "exponent", "largest"):
            require_int(name, getattr(scaling, name), -126, 127)
        require_int("window", scaling.window, 1, 2**32 - 1)


def _commands(data: bytes, limits: Limits) -> tuple[Command, ...]:
    starts = range(0, len(data), COMMAND_BYTES)
    return tuple(decode(data[start : start + COMMAND_BYTES], limits) for start in starts)


def _area(values: Mapping[str, Any]) -> PlannedArea:
    shape: Sequence[int] = values["shape"]
    life = values["life"]
    plain = {name: value for name, value in values.items() if name not in ("shape", "life")}
    return PlannedArea(**plain, shape=tuple(shape), life=None if life is None else Life(**life))


def _scaling(values: Mapping[str, Any]) -> LossScaling:
    floors = tuple((int(step), int(exponent)) for step, exponent in values["floors"])
    plain = {name: int(value) for name, value in values.items() if name != "floors"}
    return LossScaling(**plain, floors=floors)
