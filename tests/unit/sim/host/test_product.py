"""A product directory, and what is said of one that is damaged."""

import json

import pytest

from diastole_sim.host.errors import ProductError
from diastole_sim.host.product import Product


def test_no_product(tmp_path):
    with pytest.raises(ProductError, match=r"is not a product: manifest\.json cannot be read"):
        Product.load(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ProductError, match="is not JSON"):
        Product.load(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ProductError, match="lacks or misspells a key"):
        Product.load(tmp_path)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"files": []}, "lists no Verilog file"),
        ({"files": [{"path": "gone.v", "kind": "verilog"}]}, "lacks .*gone.v"),
        (
            {"parameters": {"data_width": 48}},
            "data_width must be a power of two in 32..512, not 48",
        ),
        ({"parameters": {"data_width": 64, "ports": 3}}, "ports must be 1 or 2, not 3"),
        ({"parameters": {}}, "lacks or misspells a key: KeyError"),
    ],
)
def test_bad_manifest(copier, change, text):
    path = copier() / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ProductError, match=text):
        Product.load(path.parent)
