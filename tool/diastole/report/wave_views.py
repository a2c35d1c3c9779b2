"""What viewers of waves show at first: the product's ports, by what they belong to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from diastole.files import atomic

SCOPE = "product.Harness.product"
"""Of the product in the waves."""
GROUPS = {"s_axil_": "registers", "m_axi_": "memory", "m_axi1_": "second port to memory"}


def write_views(waves: Path, ports: Sequence[Mapping[str, Any]]) -> tuple[Path, Path]:
    """Beside ``waves``: a save file of GTKWave, which opens them itself (``gtkwave NAME.gtkw``),
    and commands for Surfer (``surfer -c NAME.sucl``). ``ports`` as in a manifest. A view that is
    there already stays: somebody may have saved his own. BadInput where they cannot be written."""
    views = waves.with_suffix(".gtkw"), waves.with_suffix(".sucl")
    texts = _gtkwave(waves, ports), _surfer(waves, ports)
    for view, lines in zip(views, texts, strict=True):
        data = "".join(f"{line}\n" for line in lines).encode()
        with suppress(FileExistsError):
            atomic.create(view, lambda file, data=data: file.write(data))
    return views


def _grouped(ports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Ports by group; those of none first."""
    yield "", [port for port in ports if not port["name"].startswith(tuple(GROUPS))]
    for prefix, name in GROUPS.items():
        found = [port for port in ports if port["name"].startswith(prefix)]
        if found:
            yield name, found


def _gtkwave(waves: Path, ports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f'[dumpfile] "{waves.resolve()}"'
    for name, found in _grouped(ports):
        if name:
            yield "@200"  # a comment
            yield f"-{name}"
        for port in found:
            wide = port["width"] > 1
            yield "@22" if wide else "@28"  # in hexadecimal, in binary
            yield f"{SCOPE}.{port['name']}" + (f"[{port['width'] - 1}:0]" if wide else "")


def _surfer(waves: Path, ports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"load_file {waves.resolve()}"
    for name, found in _grouped(ports):
        if name:
            yield f"divider_add {name}"
        for port in found:
            yield f"variable_add {SCOPE}.{port['name']}"
    yield "zoom_fit"
