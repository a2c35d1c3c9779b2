"""Run the command line: parse arguments, run a command, turn an error into an exit code.

0: done; 1: the check failed; 2: bad input; 3: a tool is missing; 128 and the number of the signal
that ended the process. Scripts rely on the exit codes.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence

import diastole
from diastole import console
from diastole.commands import (
    board,
    check,
    compare,
    completion,
    doctor,
    estimate,
    evaluate,
    explain,
    formats,
    generate,
    init,
    predict,
    program,
    run,
    synth,
    train,
)
from diastole.commands.parser import Parser
from diastole.console import fail, one_line
from diastole.ending import Ended, end_on_signals
from diastole.errors import BadInput, CheckFailed
from diastole_hw.emit.collector import collector_seldom
from diastole_sim.system.programs import ToolMissing

COMMANDS = (
    init,
    check,
    estimate,
    generate,
    board,
    synth,
    run,
    explain,
    train,
    evaluate,
    predict,
    program,
    compare,
    formats,
    doctor,
    completion,
)

DONE, CHECK_FAILED, BAD_INPUT, TOOL_MISSING, INTERRUPTED = 0, 1, 2, 3, 130


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="diastole",
        description="Generates, simulates and measures hardware that trains neural networks.",
        epilog="exit codes: 0 done, 1 the check failed, 2 bad input, 3 a tool is missing, 128 + "
        "the number of a signal if a signal ended the command",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"diastole {diastole.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    parser.share_options()
    parser.set_defaults(whole_parser=parser)  # for `completion`
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. ``argv`` is without the program's name."""

    def command() -> int:
        parser = make_parser()
        words = sys.argv[1:] if argv is None else argv
        if not words:
            console.say(parser.format_help().rstrip())
            return DONE
        arguments = parser.parse_args(words)
        if argv is None and arguments.execute is generate.execute:
            return _without_freeing(lambda: arguments.execute(arguments))
        return arguments.execute(arguments)

    return exit_code(command)


def _without_freeing(work: Callable[[], int]) -> int:
    """Return the result of ``work`` without freeing objects, in a process that ends after ``work``.
    The objects of a design refer to each other in circles. Freeing them, even at exit, would take a
    second for a design."""
    with collector_seldom():
        try:
            return work()
        finally:
            gc.freeze()


def exit_code(work: Callable[[], int]) -> int:
    """Return the result of ``work``, or the exit code of a raised error after a line for each
    mistake."""
    _occupy_standard_descriptors()
    code = _code_of(lambda: _to_its_end(work))
    try:
        console.flush()
    except BadInput as error:  # a full disk, noticed only now
        fail(str(error))
        return code or BAD_INPUT
    return code


def _to_its_end(work: Callable[[], int]) -> int:
    with end_on_signals():
        return work()


def _code_of(work: Callable[[], int]) -> int:
    try:
        return work()
    except SystemExit as done:  # raised by --help and --version
        return done.code if isinstance(done.code, int) else DONE
    except BadInput as error:
        for problem in error.problems:
            fail(one_line(problem))
        return BAD_INPUT
    except CheckFailed as error:
        fail(str(error))
        return CHECK_FAILED
    except ToolMissing as error:
        fail(str(error))
        return TOOL_MISSING
    except OSError as error:
        fail(one_line(f"{error.filename}: {error.strerror}" if error.filename else str(error)))
        return BAD_INPUT
    except MemoryError as error:
        fail(f"the work is too large for this computer: {str(error) or 'no memory is left'}")
        return BAD_INPUT
    except Ended as ended:
        fail(f"ended by {ended}" if ended.code != INTERRUPTED else "interrupted")
        return ended.code
    except KeyboardInterrupt:
        fail("interrupted")
        return INTERRUPTED


def _occupy_standard_descriptors() -> None:
    """Open closed standard descriptors on the null device. Otherwise a file of ours would take a
    standard descriptor, and receive the text of a compiler. Python still prints nothing on the
    descriptor."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


if __name__ == "__main__":
    sys.exit(main())
