"""Options whose value is one of our names, or a name in a Python file of the user."""

import argparse
from collections.abc import Callable, Iterable

from diastole.console import one_line
from diastole.nearest import meant
from diastole_sim.program.own_code import FORM, OwnCode, OwnCodeError, OwnNameError
from diastole_sim.spec.require import shown

OWN_PAGE = "docs/own.md"
"""That says how a user writes an activation or an optimiser."""


class NamesOrOwn(tuple[str, ...]):
    """Names for help and completion; what :func:`named_or_own` returns is always among them."""

    def __contains__(self, _: object) -> bool:
        return True


def named_or_own(
    known: Iterable[str], check: Callable[[OwnCode], object]
) -> Callable[[str], str | OwnCode]:
    """A type for argparse: one of these names, or what a file of the user has by a name, where
    ``check`` raises an OwnCodeError unless that is of the right kind."""
    names = tuple(known)

    def parse(text: str) -> str | OwnCode:
        if text in names:
            return text
        if ":" not in text:
            raise argparse.ArgumentTypeError(
                f"must be one of {', '.join(names)}, or {FORM}, not {shown(text)}"
                f"{meant(text, names)}"
            )
        try:
            code = OwnCode.read(text)
            check(code)
        except OwnNameError as error:
            near = meant(error.name, error.names)
            raise argparse.ArgumentTypeError(one_line(f"{error}{near}")) from None
        except OwnCodeError as error:
            raise argparse.ArgumentTypeError(one_line(str(error))) from None
        return code

    return parse
