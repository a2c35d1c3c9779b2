"""Write the first view of wave viewers: the ports of the product, grouped by function."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from diastole.files import atomic

SCOPE = "product.Harness.product"
"""Scope of the product in the waves."""
GROUPS = {"s_axil_": "registers", "m_axi_": "memory", "m_axi1_": "second port to memory"}


def write_views(waves: Path, ports: Sequence[Mapping[str, Any]]) -> tuple[Path, Path]:
    """Write two views beside ``waves``, and return their paths.

    The views are a save file of GTKWave, which opens the waves (``gtkwave NAME.gtkw``), and
    commands for Surfer (``surfer -c NAME.sucl``). ``ports``: ports as in a manifest. An existing
    view stays, because a user may have saved the view. BadInput if a view cannot be written.
    """
    views = waves.with_suffix(".gtkw"), waves.with_suffix(".sucl")
    texts = _gtkwave(waves, ports), _surfer(waves, ports)
    for view, lines in zip(views, texts, strict=True):
        data = "".join(f"{line}\n" for line in lines).encode()
        with suppress(FileExistsError):
            atomic.create(view, lambda file, data=data: file.write(data))
    return views


def _grouped(ports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the ports by group. Ports without a group come first."""
    yield "", [port for port in ports if not port["name"].startswith(tuple(GROUPS))]
    for prefix, name in GROUPS.items():
        group = [port for port in ports if port["name"].startswith(prefix)]
        if group:
            yield name, group


def _gtkwave(waves: Path, ports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f'[dumpfile] "{waves.resolve()}"'
    for name, group in _grouped(ports):
        if name:
            yield "@200"  # comment
            yield f"-{name}"
        for port in group:
            wide = port["width"] > 1
            yield "@22" if wide else "@28"  # in hexadecimal, in binary
            yield f"{SCOPE}.{port['name']}" + (f"[{port['width'] - 1}:0]" if wide else "")


def _surfer(waves: Path, ports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"load_file {waves.resolve()}"
    for name, group in _grouped(ports):
        if name:
            yield f"divider_add {name}"
        for port in group:
            yield f"variable_add {SCOPE}.{port['name']}"
    yield "zoom_fit"
