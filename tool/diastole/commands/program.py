"""`diastole program`: build the program of a training, read and run the program, and write the
program for a host without Python."""

import argparse
import hashlib
import os
import shlex
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from diastole.backend import make_machine, program_limits
from diastole.commands import network_options, recipe_options, scaling, train_program
from diastole.commands.arguments import (
    Commands,
    add_backend,
    add_config,
    add_delays,
    add_json,
    add_seed,
    integer,
    read_config,
)
from diastole.commands.backends import execution_of
from diastole.commands.parser import Parser
from diastole.commands.progress import progress
from diastole.commands.train import (
    add_precision,
    listed_tasks,
    named_task,
    program_options,
    require_samples,
)
from diastole.console import fail, print_json, say, say_next
from diastole.errors import BadInput
from diastole.execution import Execution
from diastole.files import atomic
from diastole.files.outputs import check_folder, check_output
from diastole.files.sealed_file import ENDING, check_sealed
from diastole.learning.program_file import ProgramFile
from diastole.learning.task import own_task
from diastole_sim.golden.memory import Bytes
from diastole_sim.program.run import Floats, MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.trainer.job import weights_sha256

PRODUCT_FOLDER = "product/sw"
REPORTED = 25
"""Steps between two lines of progress."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "program",
        help="build, read, run or export the program of a training",
        description=__doc__,
        epilog="example: diastole program build my.toml --task digits --out digits.safetensors",
        allow_abbrev=False,
    )
    parsers: Any = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for add in (_add_build, _add_dump, _add_run, _add_export):
        add(parsers)


def _add_build(commands: Commands) -> None:
    parser = commands.add_parser(
        "build",
        help="write the program of a training to a file",
        description="`diastole program build`: write memory, commands and plan of a training to a "
        "file.",
        epilog="example: diastole program build my.toml --task digits --out digits.safetensors",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument("--task", metavar="NAME", help=f"task to learn: {listed_tasks()}")
    parser.add_argument(
        "--steps",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="minibatches to train on (default: the number of the task)",
    )
    parser.add_argument(
        "-o", "--out", metavar="FILE", type=Path, required=True, help=f"file to write ({ENDING})"
    )
    add_precision(parser)
    scaling.add_loss_scale(parser)
    network_options.add_network(parser)
    recipe_options.add_program(parser)
    recipe_options.add_memory(parser, "refuse a program that needs more memory than KIB")
    add_seed(parser, "seed of all random draws")
    add_json(parser)
    parser.set_defaults(execute=_build)


def _add_dump(commands: Commands) -> None:
    parser = commands.add_parser(
        "dump",
        help="print a program as text",
        description="`diastole program dump`: print the areas of memory, all commands with the "
        "names of tensors and the modelled cycles, and the texts of all chains.",
        epilog="example: diastole program dump digits.safetensors",
        allow_abbrev=False,
    )
    _add_file(parser)
    parser.set_defaults(execute=_dump)


def _add_run(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a program on its machine",
        description="`diastole program run`: train by a program and evaluate the network once, on "
        "the machine for which the program was built.",
        epilog="example: diastole program run digits.safetensors --backend golden",
        allow_abbrev=False,
    )
    _add_file(parser)
    parser.add_argument(
        "--steps",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="stop after N steps (default: all steps of the program)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="write losses, result and parameters by name to FILE (.npz)",
    )
    parser.add_argument(
        "--memory", metavar="FILE", type=Path, help="write the memory at the end to FILE"
    )
    add_backend(parser)
    add_delays(parser)
    add_json(parser)
    parser.set_defaults(execute=_run)


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write a program for a host without Python",
        description="`diastole program export`: write the memory image, a C header with places and "
        "counts, and a host program in C over the driver of the product.",
        epilog="example: diastole program export digits.safetensors --out exported",
        allow_abbrev=False,
    )
    _add_file(parser)
    parser.add_argument(
        "-o",
        "--out",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder for program.bin, program.h and train.c; further files of the folder stay",
    )
    parser.set_defaults(execute=_export)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="PROGRAM", type=Path, help="file that diastole program build wrote"
    )


def _build(arguments: argparse.Namespace) -> int:
    check_sealed("--out", arguments.out)
    config = read_config(arguments)
    training = network_options.own_training(arguments)
    own = None if training is None else own_task(training, seed=arguments.seed)
    task = own.task if own is not None else named_task(arguments.task)
    options = program_options(config, arguments)
    if options is None:
        raise BadInput(
            f"a host trains {task.name}, without a program: give --graph, or --task digits"
        )
    if train_program.has_other_masters(config):
        raise BadInput(
            f"a program file keeps the weights in float32, unlike numbers = {config.numbers}: "
            "leave numbers out"
        )
    if own is None:
        require_samples(task)
    task = replace(task, steps=arguments.steps or task.steps)
    begun = time.monotonic()
    made = train_program.task_program_of(
        config, task, options, seed=arguments.seed, memory_kib=arguments.memory_kib, whole=True
    )
    seconds = time.monotonic() - begun
    about = {"task": task.name, "batch": task.batch, **options.description(task)}
    about["groups"] = [asdict(group) for group in options.groups]
    file = ProgramFile(config=config, seed=arguments.seed, program=made.program, about=about)
    file.write(arguments.out)
    record = {
        "file": str(arguments.out),
        "steps": made.program.steps,
        "commands": len(made.program.training),
        "memory_bytes": made.program.memory_bytes,
        "seconds": seconds,
    }
    if arguments.json:
        print_json(record)
        return 0
    say(
        f"wrote {arguments.out}: {task.name}, {record['steps']} steps, {record['commands']} "
        f"commands, {record['memory_bytes']} bytes of memory"
    )
    say_next(f"diastole program run {arguments.out} trains by the program")
    return 0


def _dump(arguments: argparse.Namespace) -> int:
    from diastole_sim.program.listing import ProgramListing

    file = ProgramFile.read(arguments.program)
    program, cycles, lines = file.program, None, []
    if file.config.vector.enable:
        from diastole.layers.modelled_step import modelled_step

        step = modelled_step(file.config, program).step(program.training)
        ends = [0, *(each.done for each in step.commands)]
        cycles = {
            each.number: each.done - before
            for each, before in zip(step.commands, ends, strict=False)
        }
        causes = ", ".join(f"{name} {count}" for name, count in step.cause_cycles.items() if count)
        lines = [f"a step takes {step.cycles} cycles by the model: {causes}"]
    about = file.about
    say(
        f"{about['task']} on {file.config.name}: {program.steps} steps of {about['batch']} "
        f"samples, seed {file.seed}, configuration {file.config.config_sha256}"
    )
    for line in lines:
        say(line)
    say("")
    say(str(ProgramListing(program, cycles)).rstrip("\n"))
    return 0


def _run(arguments: argparse.Namespace) -> int:
    for option, path, ending in (
        ("--out", arguments.out, ".npz"),
        ("--memory", arguments.memory, ".bin"),
    ):
        if path is not None:
            check_output(option, path, (ending,))
    execution = execution_of(arguments)
    file = ProgramFile.read(arguments.program)
    steps = arguments.steps or file.program.steps
    if steps > file.program.steps:
        raise BadInput(f"--steps must be at most {file.program.steps}, the steps of the program")
    begun = time.monotonic()
    with ExitStack() as stack:
        run = _begun(file, replace(execution, seed=file.seed), arguments.verify, stack)
        result = _trained(run, steps, str(file.about["task"]), execution.backend)
        record = _record(run) | {"backend": execution.backend}
        memory = _memory(run).tobytes()
        arrays = {"losses": run.losses(), "result": result, **run.parameters()}
    record |= {"seconds": time.monotonic() - begun}
    if arguments.memory is not None:
        atomic.replace(arguments.memory, lambda out: out.write(memory))
    if arguments.out is not None:
        atomic.replace(arguments.out, lambda out: np.savez(out, allow_pickle=False, **arrays))
    if arguments.json:
        print_json(record)
    else:
        say("\n".join(_lines(str(file.about["task"]), record)))
    if record["mismatches"]:
        fail(f"{record['mismatches']} values differ from the golden model")
        return 1
    return 0


def _begun(file: ProgramFile, execution: Execution, verify: bool, stack: ExitStack) -> ProgramRun:
    """Return a run with a machine whose memory holds the program. ``stack`` closes the machine."""
    program, numerics = file.program, file.config.numerics
    machine = stack.enter_context(make_machine(execution, file.config, program))
    if not verify:
        return ProgramRun(program=program, machine=machine)
    golden = golden_machine(program, numerics, program_limits(file.config), seed=file.seed)
    return VerifiedRun(program=program, machine=machine, reference=golden)


def _trained(run: ProgramRun, steps: int, name: str, backend: str) -> Floats:
    """Train for a number of steps, and return the result of an evaluation."""
    with progress(f"{name} on {backend}") as report:
        try:
            while run.done < steps:
                run.train(min(REPORTED, steps - run.done))
                report(run.done, steps, float(run.losses()[-1]))
            return run.evaluate()
        except MachineStoppedError as stopped:
            raise train_program.judged(stopped, run) from stopped


def _memory(run: ProgramRun) -> Bytes:
    return run.machine.read_rows(0, 1, 0, run.program.memory_bytes)[0]


def _record(run: ProgramRun) -> dict[str, Any]:
    """Return the results of a run as plain values."""
    verified = isinstance(run, VerifiedRun)
    return {
        "steps": run.done,
        "loss": float(run.losses()[-1]),
        "weights_sha256": weights_sha256(run),
        "memory_sha256": hashlib.sha256(_memory(run).tobytes()).hexdigest(),
        "cycles": run.training.get("cycles_total"),
        "verified": verified,
        "compared": run.comparison.compared if verified else 0,
        "mismatches": run.comparison.mismatches if verified else 0,
    }


def _lines(name: str, record: dict[str, Any]) -> list[str]:
    lines = [
        f"{name} on {record['backend']}: {record['steps']} steps in {record['seconds']:.1f} s",
        f"loss of the last step {record['loss']:.4f}",
        f"weights {record['weights_sha256']}",
        f"memory {record['memory_sha256']}",
    ]
    if record["cycles"] is not None:
        lines.append(f"{record['cycles']} cycles of training")
    if record["verified"]:
        lines.append(f"{record['compared']} values compared with the golden model")
    return lines


def _export(arguments: argparse.Namespace) -> int:
    from diastole.product.exported_program import exported
    from diastole.product.host_view import HostView

    folder: Path = arguments.out
    file = ProgramFile.read(arguments.program)
    config = file.config
    if not config.vector.enable:
        raise BadInput(
            f"{arguments.program}: only a machine with a vector unit runs a program without "
            "Python: build the program with --set vector.enable=true"
        )
    check_folder(folder)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out must name a folder, not {folder}")
    contents = exported(HostView.of(config), file.program, seed=file.seed)
    folder.mkdir(exist_ok=True)
    for name, data in contents.items():
        atomic.replace(folder / name, lambda out, data=data: out.write(data))
    say(f"wrote {', '.join(str(folder / name) for name in contents)}")
    # The Makefile of a product reads paths relative to its folder.
    path = shlex.quote(os.path.relpath(folder, PRODUCT_FOLDER))
    say_next(
        f"make -C {PRODUCT_FOLDER} HOST={path}/train.c IMAGE={path}/program.bin runs the program "
        "in simulation, after diastole generate -o product"
    )
    return 0
