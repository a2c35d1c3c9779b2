"""Check activations, losses and optimisers in files of users, and turn them into parts of a recipe.

All errors of a part are found in this module, before a training starts.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, cast

import numpy as np

from diastole_sim.program.assembly import CONSTANT, AssemblyError
from diastole_sim.program.chain import INVERSE_LOSS_SCALE, LOSS_SCALE, Chain
from diastole_sim.program.chains.activations import Activation
from diastole_sim.program.chains.losses import ElementLoss
from diastole_sim.program.chains.updates import CLIP_FACTOR, OWN_STREAMS, Options
from diastole_sim.program.optimizer_table import FIRST_RATE, OF_OPTIMIZERS, OptimizerChoice
from diastole_sim.program.own_code import OwnCode, OwnCodeError, guarded
from diastole_sim.program.program_tables import STEP_CONSTANTS
from diastole_sim.program.recipe import Optimiser
from diastole_sim.spec.micro import REGISTERS, USES, MicroOp
from diastole_sim.spec.require import excerpt
from diastole_sim.spec.stream_table import Kind

BLOCKS = (8, 4, 16, 32, 2, 1)
"""Sides of blocks to try. A chain must be a valid program for one of these sides."""
METHODS = {
    "chain": "chain(options), which returns the update",
    "constants": "constants(), which returns the fixed constants",
    "of_step": "of_step(step), which returns the constants of a step",
}
"""Methods of an optimiser."""
ELEMENT_FLAGS = ("fresh", "keep", "turn", "turned", "when")
"""Words of a text that make a value depend on other elements."""
_STREAM = re.compile(r"\b[so]\d\b")
_OF_THE_MACHINE = {str(LOSS_SCALE), str(INVERSE_LOSS_SCALE)}


@cache
def own_activation(code: OwnCode) -> Activation:
    """Return the activation with the name. OwnCodeError if the object is no activation, or if a
    text of the activation breaks a rule."""
    loaded = _called(code, "an activation", Activation)
    if not isinstance(loaded, Activation):
        raise OwnCodeError(
            f"{code}: must be an Activation of diastole_sim.program.chains.activations, or "
            f"a function without arguments that returns an Activation, not {_kind(loaded)}"
        )
    problem = _problem_of(loaded)
    if problem is not None:
        raise OwnCodeError(f"{code}: {problem}")
    for name, make in (("forward", loaded.forward_chain), ("backward", loaded.backward_chain)):
        chain = guarded(code, f"{name}", make)
        _check_chain(code, chain, f"{name}: ", {"kept": loaded.kept[0]})
    return loaded


@cache
def own_loss(code: OwnCode) -> ElementLoss:
    """Return the loss with the name. OwnCodeError if the object is no loss, or if the text of the
    loss breaks a rule."""
    loaded = _called(code, "a loss", ElementLoss)
    if not isinstance(loaded, ElementLoss):
        raise OwnCodeError(
            f"{code}: must be an ElementLoss of diastole_sim.program.chains.losses, or a function "
            f"without arguments that returns an ElementLoss, not {_kind(loaded)}"
        )
    for name in ("name", "text"):
        value: Any = getattr(loaded, name)
        if not isinstance(value, str):
            raise OwnCodeError(f"{code}: {name} must be a text, not {excerpt(value)}")
    problem = _problem_of_constants("constants", loaded.constants)
    if problem is not None:
        raise OwnCodeError(f"{code}: {problem}")
    for name in ("slope", *_OF_THE_MACHINE):
        if name in loaded.constants:
            raise OwnCodeError(
                f"{code}: constants: {name} is a constant of every loss: take another name"
            )
    for line in _lines(loaded.text):
        words = CONSTANT.sub("", line).split()
        flags = [word for word in words if word in ELEMENT_FLAGS]
        if flags:
            rule = f"a loss of one element has no {flags[0]}"
            raise _wrong(code, "text: ", line, rule)
        if "->" in words:
            raise _wrong(code, "text: ", line, "the loss stays in r1 and the derivative in r3")
        if "r2" in (word.lstrip("-") for word in words):
            raise _wrong(code, "text: ", line, "r2 has the sum of the row: take another register")
    _check_chain(code, loaded.element_chain(), "text: ", {})
    _check_registers(code, loaded)
    return loaded


def _check_registers(code: OwnCode, loss: ElementLoss) -> None:
    """Check that a loss reads no register before the text writes the register. OwnCodeError
    otherwise: a register has the number of an earlier element at first."""
    texts = [line for line in _lines(loss.text) if line]
    program = loss.element_chain().assembled(max(BLOCKS))
    written: set[int] = set()
    for number, instruction in enumerate(program):
        used = USES[MicroOp(instruction.op)]
        for register in (getattr(instruction, letter) for letter in used):
            if register < REGISTERS and register not in written:
                if number < len(texts):
                    rule = f"no line before writes r{register}"
                    raise _wrong(code, "text: ", texts[number], rule)
                result = {1: "the loss", 3: "the derivative"}[register]
                raise OwnCodeError(f"{code}: text: no line writes r{register}, {result}")
        written.add(instruction.d)


def _called(code: OwnCode, what: str, kind: type) -> Any:
    """Return the object of a file. A function without arguments is called."""
    loaded = code.load()
    if not callable(loaded) or isinstance(loaded, kind):
        return loaded
    needed = _needed(loaded, ())
    if needed:
        raise OwnCodeError(
            f"{code}: {what} is called without arguments, but {code.name} needs "
            f"{_listed(needed)}: give each argument a default"
        )
    return guarded(code, f"{code.name}()", loaded)


def _problem_of(activation: Activation) -> str | None:
    """Return the first error in an activation's members, if any."""
    for name in ("name", "forward", "backward", "keeps"):
        value = getattr(activation, name)
        if not isinstance(value, str):
            return f"{name} must be a text, not {excerpt(value)}"
    kinds = (Kind.F32, Kind.BF16, Kind.MASK)
    stored: Any = activation.kept
    each = cast(tuple[Any, ...], stored) if isinstance(stored, tuple) else ()
    if not each or any(one not in kinds for one in each):
        return f"kept must be a tuple of Kind.F32, Kind.BF16 or Kind.MASK, not {stored!r:.60}"
    return _problem_of_constants("constants", activation.constants)


def _problem_of_constants(what: str, constants: Any) -> str | None:
    """Return why a value is not a dict of constants by name; None for a correct dict."""
    if not isinstance(constants, Mapping):
        return f"{what} must be a dict of numbers by name, not {_kind(constants)}"
    for name, value in cast(Mapping[Any, Any], constants).items():
        if not isinstance(name, str) or CONSTANT.fullmatch(f"K[{name}]") is None:
            return f"{what}: a name is a word without spaces or brackets, not {excerpt(name)}"
        try:
            with np.errstate(over="ignore"):
                fits = not isinstance(value, str) and np.isfinite(np.float32(float(value)))
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            shown = repr(value) if isinstance(value, str) else excerpt(value)
            return (
                f"{what}: {name} must be a finite number in the range of float32, not {shown:.60}"
            )
    return None


def _check_chain(code: OwnCode, chain: Chain, what: str, kinds: Mapping[str, Kind]) -> None:
    """Check a chain. OwnCodeError if the chain breaks a rule, or if text, streams and constants do
    not agree. ``kinds``: kinds of streams, where a stream does not have the usual kind."""
    ports = {f"s{port.number}": name for name, port in chain.inputs.items()}
    outputs = {f"o{port.number}": name for name, port in chain.outputs.items()}
    used = {
        match[0]: line
        for line in _lines(chain.text)
        for match in _STREAM.finditer(CONSTANT.sub("", line))
    }
    for stream, line in used.items():
        if stream not in ports | outputs:
            names = ", ".join(f"{each} ({name})" for each, name in (ports | outputs).items())
            raise _wrong(code, what, line, f"there is no stream {stream}, only {names}")
    for stream, name in outputs.items():
        if stream not in used:
            raise OwnCodeError(f"{code}: {what}no line writes {stream}, {name}")
    for line in _lines(chain.text):
        for name in CONSTANT.findall(line):
            if name not in chain.constants and name not in _OF_THE_MACHINE:
                names = ", ".join(chain.constants) or "none"
                raise _wrong(code, what, line, f"there is no constant {name}, only {names}")
    first = None
    for block in BLOCKS:
        error = _refused(chain, block, kinds)
        if error is None:
            return
        first = first or error
    if isinstance(first, AssemblyError):
        raise _wrong(code, what, first.problems[0].text, first.problems[0].rule)
    raise OwnCodeError(f"{code}: {what}{first}")


def _refused(chain: Chain, block: int, kinds: Mapping[str, Kind]) -> ValueError | None:
    """Return the reason why a chain is no program for blocks of side ``block``; None if the chain
    is a program."""
    try:
        chain.assembled(block, kinds=kinds)
    except ValueError as error:
        return error
    return None


def _lines(text: str) -> list[str]:
    """Return the lines of a chain, without comments."""
    return [line.partition("#")[0].strip() for line in text.splitlines()]


def _wrong(code: OwnCode, what: str, line: str | None, rule: str) -> OwnCodeError:
    """Return the error of a line of a chain, with the number of the line in the file if known."""
    if line is None:
        return OwnCodeError(f"{code}: {what}the program {rule}")
    number = code.line_of(line)
    where = "" if number is None else f"{code.file}, line {number}: "
    return OwnCodeError(f"{code}: {what}{where}{rule}: {line.partition('#')[0].strip()}")


@cache
def own_optimizer(code: OwnCode) -> OptimizerChoice:
    """Return the optimiser with the name as a choice. Options of the choice are the parameters with
    the names of options. OwnCodeError if the optimiser cannot be made from ``rate`` and options, as
    listed optimisers are."""
    made = code.load()
    if not callable(made):
        raise OwnCodeError(
            f"{code}: must be a class of optimisers with a parameter rate, the learning "
            f"rate by step, not {_kind(made)}"
        )
    parameters = _parameters(made)
    if "rate" not in parameters:
        raise OwnCodeError(
            f"{code}: must have a parameter rate, a function that gives the learning rate "
            f"of a step; the parameters are {_listed(parameters)}"
        )
    needed = _needed(made, ("rate",))
    if needed:
        raise OwnCodeError(
            f"{code}: the class is called with rate= and the options of the command, but "
            f"also needs {_listed(needed)}: give each parameter a default"
        )
    takes = tuple(name for name in OF_OPTIMIZERS if name in parameters)
    defaults = {name: parameters[name].default for name in takes}
    plain = {name: value for name, value in defaults.items() if _is_plain(name, value)}

    def make(**options: Any) -> Optimiser:
        return OwnOptimiser(code, guarded(code, f"{code.name}(...)", made, **options))

    return OptimizerChoice(make=make, takes=takes, defaults={"rate": FIRST_RATE} | plain)


def _is_plain(name: str, value: object) -> bool:
    """Return whether a result can report the default of an option."""
    if name != "betas":
        return isinstance(value, int | float)
    pair = isinstance(value, tuple) and len(cast(tuple[Any, ...], value)) == 2
    return pair and all(isinstance(each, int | float) for each in cast(tuple[Any, ...], value))


class OwnOptimiser:
    """Optimiser of a user. Each method is called once for equal arguments, and the returned value
    is checked."""

    def __init__(self, code: OwnCode, made: object):
        self._code, self._made = code, made
        self._chains: dict[Options, Chain] = {}
        self._steps: dict[int, Mapping[str, float]] = {}
        self._constants: Mapping[str, float] | None = None
        for name, does in METHODS.items():
            method = guarded(code, f"the {name} of {_kind(made)}", getattr, made, name, None)
            if not callable(method) and not inspect.isclass(code.load()):
                raise OwnCodeError(
                    f"{code}: {code.name}() returned {_kind(made)}; {code.name} must return an "
                    f"object with a method {does}"
                )
            if not callable(method):
                raise OwnCodeError(f"{code}: {_kind(made)} must have a method {does}")

    def chain(self, options: Options) -> Chain:
        if options not in self._chains:
            chain = self._call("chain", options)
            self._check_update(chain, options)
            self._chains[options] = chain
        return self._chains[options]

    def constants(self) -> Mapping[str, float]:
        if self._constants is None:
            self._constants = self._numbers("constants")
        return self._constants

    def of_step(self, step: int) -> Mapping[str, float]:
        if step not in self._steps:
            numbers = self._numbers("of_step", step)
            both = set(numbers) & set(self.constants())
            if both:
                raise OwnCodeError(
                    f"{self._code}: {_listed(sorted(both))} is in constants() and in "
                    "of_step(): keep only one"
                )
            self._steps[step] = numbers
        return self._steps[step]

    def check(self) -> None:
        """Check the updates of the optimiser for all recipes; OwnCodeError if an update is
        invalid."""
        for bias, image, clipped, scaled in product((False, True), repeat=4):
            self.chain(Options(bias=bias, image=image, clipped=clipped, scaled=scaled))
        first, second = self.of_step(0), self.of_step(1)
        if set(first) != set(second) or len(first) > STEP_CONSTANTS:
            raise OwnCodeError(
                f"{self._code}: of_step(step) must return the same names for every step, "
                f"at most {STEP_CONSTANTS}; step 0 has {_listed(first)}, step 1 has "
                f"{_listed(second)}"
            )

    def _call(self, name: str, *arguments: object) -> Any:
        shown_arguments = ", ".join(
            "options" if isinstance(a, Options) else str(a) for a in arguments
        )

        def call() -> Any:
            return getattr(self._made, name)(*arguments)

        return guarded(self._code, f"{name}({shown_arguments})", call)

    def _numbers(self, name: str, *arguments: int) -> Mapping[str, float]:
        numbers = self._call(name, *arguments)
        what = f"{name}({', '.join(map(str, arguments))})"
        with self._code.running(f"{self._code}: reading the result of {what} fails: "):
            problem = _problem_of_constants(what, numbers)
            if problem is not None:
                raise OwnCodeError(f"{self._code}: {problem}")
            return {each: float(value) for each, value in numbers.items()}

    def _check_update(self, chain: object, options: Options) -> None:
        code, what = self._code, "chain(options)"
        if not isinstance(chain, Chain):
            raise OwnCodeError(
                f"{code}: {what} must return the result of update_chain, not {_kind(chain)}"
            )
        state = [name for name in chain.outputs if name not in OWN_STREAMS]
        outputs = ["w", *state, *(["image"] if options.image and not options.bias else [])]
        inputs = {"g", "w", *state}
        if set(chain.outputs) != set(outputs) or set(chain.inputs) != inputs:
            raise OwnCodeError(
                f"{code}: {what} must return the result of update_chain, with inputs g, w "
                "and the state, and outputs w, the state and image; the inputs are "
                f"{_listed(chain.inputs)}, the outputs {_listed(chain.outputs)}"
            )
        defined = {*self.constants(), *self.of_step(0), CLIP_FACTOR}
        for name, value in chain.constants.items():
            if value is None and name not in defined:
                raise OwnCodeError(
                    f"{code}: the text uses K[{name}], but constants() and of_step(step) "
                    f"only define {_listed(sorted(defined - {CLIP_FACTOR}))}"
                )
        panels = {name: Kind.PANEL for name in (*chain.inputs, *outputs) if name in ("w", *state)}
        for kinds in ({}, panels):
            _check_chain(code, chain, f"{what}: ", kinds)


def _parameters(made: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters that can be passed by name; none if Python does not know the
    parameters."""
    try:
        parameters = inspect.signature(made).parameters
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: each for name, each in parameters.items() if each.kind in kinds}


def _needed(made: Callable[..., Any], supplied: Sequence[str]) -> list[str]:
    """Return the names of parameters without a default that are not in ``supplied``."""
    empty = inspect.Parameter.empty
    parameters = _parameters(made)
    return [n for n, each in parameters.items() if each.default is empty and n not in supplied]


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


def _kind(value: object) -> str:
    """Return a description of a value for messages."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
