"""A product for the driver's tests: hand-written, small, and able to misbehave."""

import json
import re
from pathlib import Path

FIXTURE = Path(__file__).parent / "copier.v"


def write_product(folder: Path, data_width: int) -> Path:
    folder.mkdir(parents=True)
    text = FIXTURE.read_text().replace("DATA_WIDTH", str(data_width))
    (folder / "copier.v").write_text(text)
    manifest = {
        "name": "copier",
        "config_sha256": "0123456789abcdef",
        "top": "copier",
        "files": [{"path": "copier.v", "kind": "verilog", "sha256": ""}],
        "parameters": {"data_width": data_width, "address_width": 40},
        "ports": ports(text, data_width),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def ports(text: str, data_width: int) -> list[dict]:
    """Of the copier, from its Verilog."""
    widths = {"D": data_width, "D/8": data_width // 8}
    found = re.findall(r"(input|output)(?: reg)?(?: \[(\S+)-?1?:0\])? (\w+)[,\n]", text)
    return [
        {"name": name, "direction": direction, "width": _width(bits, widths)}
        for direction, bits, name in found
    ]


def _width(bits: str, widths: dict[str, int]) -> int:
    bits = bits.removesuffix("-1")
    return widths.get(bits) or int(bits or 0) + 1
