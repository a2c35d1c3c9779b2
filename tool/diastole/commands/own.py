"""Options with a known name as value, or with a name in a Python file of the user."""

import argparse
from collections.abc import Callable, Iterable

from diastole.console import one_line
from diastole.nearest import suggestion
from diastole_sim.program.own_code import FORM, OwnCode, OwnCodeError, OwnNameError
from diastole_sim.spec.require import excerpt

OWN_PAGE = "docs/own.md"
"""Page on how a user writes an activation or an optimiser."""


class NamesOrOwn(tuple[str, ...]):
    """Names for help and completion. Every value is contained: :func:`named_or_own` checks
    values."""

    def __contains__(self, _: object) -> bool:
        return True


def named_or_own(
    accepted: Iterable[str], check: Callable[[OwnCode], object]
) -> Callable[[str], str | OwnCode]:
    """Return a type for argparse: a known name, or an object of a user's file by its name.
    ``check`` raises an OwnCodeError unless the object is of the right kind."""
    names = tuple(accepted)

    def parse(text: str) -> str | OwnCode:
        if text in names:
            return text
        if ":" not in text:
            raise argparse.ArgumentTypeError(
                f"must be one of {', '.join(names)}, or {FORM}, not {excerpt(text)}"
                f"{suggestion(text, names)}"
            )
        try:
            code = OwnCode.read(text)
            check(code)
        except OwnNameError as error:
            near = suggestion(error.name, error.names)
            raise argparse.ArgumentTypeError(one_line(f"{error}{near}")) from None
        except OwnCodeError as error:
            raise argparse.ArgumentTypeError(one_line(str(error))) from None
        return code

    return parse
