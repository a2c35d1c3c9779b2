"""A figure that was measured, beside what was asked of it."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from diastole.console import fail, say
from diastole.errors import BadInput
from diastole.files import atomic


@dataclass(frozen=True, kw_only=True)
class Figure:
    """``asked`` and ``measured`` in words; ``met``: whether it reaches it, None if only shown."""

    what: str
    asked: str
    measured: str
    met: bool | None


def at_least(what: str, value: float, bound: float, form: str = "{:.1%}") -> Figure:
    """A figure that must not be smaller than ``bound``, both written as ``form`` has it."""
    return Figure(
        what=what,
        asked=f"at least {form.format(bound)}",
        measured=form.format(value),
        met=bool(value >= bound),  # of numpy's, perhaps; and NaN meets nothing
    )


def at_most(what: str, value: float, bound: float, form: str = "{:.1%}") -> Figure:
    """A figure that must not be larger than ``bound``."""
    return Figure(
        what=what,
        asked=f"at most {form.format(bound)}",
        measured=form.format(value),
        met=bool(value <= bound),
    )


def near(what: str, value: float, wanted: float, within: float, form: str = "{:.1%}") -> Figure:
    """A figure that must not be further than ``within`` from ``wanted``."""
    return Figure(
        what=what,
        asked=f"{form.format(wanted)}, within {form.format(within)}",
        measured=form.format(value),
        met=bool(abs(value - wanted) <= within),
    )


def shown(what: str, value: float, form: str = "{:.1%}") -> Figure:
    """A figure of which nothing is asked."""
    return Figure(what=what, asked="", measured=form.format(value), met=None)


Measurement = Callable[[], Iterable[Figure]]


def choose(known: Mapping[str, Measurement], names: Iterable[str]) -> list[Measurement]:
    """The measurements of these names, all if there are none; BadInput for one that is unknown."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BadInput(*(f"no measurement {name}: {', '.join(known)}" for name in unknown))
    return [known[name] for name in wanted or known]


def bench(measurements: Iterable[Measurement], output: Path, *, require: bool) -> int:
    """Prints what is found as it is found, and writes ``output``: {"rows": [a figure, ...]}.

    Returns the exit code: 1 with ``require`` where a figure is not met.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    atomic.check_writable(output)
    say(f"{'what':52} {'asked':18} {'measured':20} met")
    figures: list[Figure] = []
    for measurement in measurements:
        for each in measurement():
            figures.append(each)
            met = {True: "yes", False: "NO", None: ""}[each.met]
            say(f"{each.what:52} {each.asked:18} {each.measured:20} {met}".rstrip())
    write_json(output, {"rows": [asdict(each) for each in figures]})
    say(f"see {output}")
    missed = [each for each in figures if each.met is False] if require else []
    for each in missed:
        fail(f"{each.what} is {each.measured}, asked: {each.asked}")
    return int(bool(missed))


def write_json(path: Path, record: object) -> None:
    """One JSON value, for people to read too."""
    text = json.dumps(record, indent=2) + "\n"
    atomic.replace(path, lambda file: file.write(text.encode()))
