"""What the commands print: results on standard output, everything else on standard error."""

import json
import sys
from typing import Any


def say(text: str) -> None:
    """A result for people; not used with ``--json``."""
    print(text)


def print_json(record: dict[str, Any]) -> None:
    """The one object that ``--json`` puts on standard output."""
    print(json.dumps(record, indent=2))


def note(text: str) -> None:
    """Something worth knowing that is no result."""
    print(f"diastole: {text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    note(f"warning: {text}")


def fail(text: str) -> None:
    note(f"error: {text}")
