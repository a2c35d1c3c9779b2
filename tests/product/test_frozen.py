"""What is emitted is what was emitted before: SHA-256 of every file of eight products.

Moves and repairs of the sources that are no changes of the hardware leave these alone. Where the
hardware is to change, ``python tests/product/test_frozen.py`` renews them, and the commit says why.
"""

import hashlib
import json
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.product.generate import product_contents

FROZEN = Path(__file__).with_name("frozen.json")


def on_nano(name: str, formats: str, grouping: str | None = None) -> Config:
    """The preset ``nano`` with other formats."""
    preset = PRODUCTS_ONLY["nano"].to_dict()
    classes = ("x", "w", "dy")
    changes = {"name": f"diastole_nano_{name}", "format": dict.fromkeys(classes, formats)}
    if grouping:
        changes["block"] = dict.fromkeys(classes, grouping)
    return from_document(
        {key: preset[key] for key in ("array", "rounding", "accumulator", "bus")} | changes
    )


PRODUCTS = {
    **PRODUCTS_ONLY,
    "mxfp8": on_nano("mxfp8", "mxfp8_e4m3"),
    "nvfp4": on_nano("nvfp4", "nvfp4"),
    "fp8": on_nano("fp8", "fp8_e5m2"),
    "vectors": on_nano("vectors", "bfp4", "1x16"),
}


RARELY = {"server", "mxfp8", "vectors"}  # in the sweeps


COMPILED = {"pico", "nano"}  # other tests generate them too


def hashes(config: Config) -> dict[str, str]:
    """By relative path, of every file of the product, the manifest included."""
    contents, _ = product_contents(config)
    return {path: sha256(text.encode()) for path, text in contents.items()}


def hashes_of_files(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): sha256(path.read_bytes()) for path in files}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.sweep] * (name in RARELY)) for name in PRODUCTS],
)
def test_every_file_is_frozen(name):
    frozen = json.loads(FROZEN.read_text())[name]
    config = PRODUCTS[name]
    found = hashes_of_files(cached_product(config)) if name in COMPILED else hashes(config)
    assert found == frozen


if __name__ == "__main__":
    text = json.dumps({name: hashes(config) for name, config in PRODUCTS.items()}, indent=1)
    FROZEN.write_text(text + "\n")
