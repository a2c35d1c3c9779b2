"""The backward pass of this project's machines: fused, beside the best of two products.

Their results are float32 and their sums stay on chip, so that orders that spill sums are no choice.
The machines are the planned ones (:mod:`diastole_sim.perf.planned`): the presets' arrays and
memories, with the buses that are planned for them. A fused pass needs dY in squares: formats of
vector groups have two products.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.planned import PlannedMachine, best, fitting, forecast
from diastole_sim.perf.planned.choose import chosen
from diastole_sim.spec.numerics import CLASS_NAMES

BUSES: Mapping[str, tuple[int, int]] = {"nano": (128, 1), "edge": (256, 1), "server": (512, 2)}
"""Bits of a port, and ports, as docs/design.md has them."""
FORMATS = ("bfp4", "mxfp8_e4m3", "nvfp4")
LAYERS: Mapping[str, tuple[int, int, int]] = {
    "digits": (64, 64, 64),
    "DLRM, 256 rows": (256, 256, 512),
    "ResNet-50 conv2, 1x1": (3136, 256, 64),
    "ResNet-50 conv4, 1x1": (196, 1024, 256),
}
"""M, N and K, of one image: small enough for a model of every pass, and dY fits some machine."""


def planned(preset: str, format_name: str) -> PlannedMachine:
    """A preset with one format for every class."""
    alike = {"format": dict.fromkeys(CLASS_NAMES, format_name)}
    config = from_document(PRODUCTS_ONLY[preset].model_dump(exclude_none=True) | alike)
    width, ports = BUSES[preset]
    today = ModelledMachine.of(
        config.numerics,
        rows=config.array.rows,
        cols=config.array.cols,
        data_width=config.bus.data_width,
        ports=config.bus.ports,
        memory=Memory.axi(),
    )
    return PlannedMachine.after(today, data_width=width, ports=ports)


def fused_over_apart(machine: PlannedMachine, m: int, n: int, k: int) -> dict[str, Any]:
    """Cycles and bytes read and written of dX and dW by their best nests, and of the best fused
    pass; its time and bytes over theirs, None where it cannot be."""
    apart = [best(machine, op, m, n, k) for op in ("dx", "dw")]
    cycles = sum(each.cycles for each in apart)
    moved = sum(each.read_bytes + each.write_bytes for each in apart)
    found = {"cycles": cycles, "bytes": moved, "time_ratio": None, "bytes_ratio": None}
    nests = fitting(machine, "backward", m, n, k)
    fused = [forecast(machine, "backward", m, n, k, nest) for nest in nests]
    if not fused:
        return found
    one = chosen(fused)
    ratios = (one.read_bytes + one.write_bytes) / moved
    return found | {"time_ratio": one.cycles / cycles, "bytes_ratio": ratios}


def preset_rows(presets: Sequence[str] = tuple(BUSES)) -> Iterator[dict[str, Any]]:
    """Every layer in every format on every machine."""
    for preset in presets:
        for format_name in FORMATS:
            machine = planned(preset, format_name)
            for name, (m, n, k) in LAYERS.items():
                row = {"preset": preset, "format": format_name, "layer": name}
                yield row | fused_over_apart(machine, m, n, k)


def preset_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows for people."""
    yield "planned machines, float32 results: backward as two products, and fused over that"
    form = "{:8}{:12}{:22}{:>12}{:>10}{:>8}{:>8}"
    yield form.format("", "", "", "cycles", "MB", "time", "bytes")
    for row in rows:
        ratios = (row["time_ratio"], row["bytes_ratio"])
        cells = ("-" if ratio is None else f"{ratio:.3f}" for ratio in ratios)
        cycles, megabytes = f"{row['cycles']:.0f}", f"{row['bytes'] / 1e6:.3f}"
        yield form.format(row["preset"], row["format"], row["layer"], cycles, megabytes, *cells)
