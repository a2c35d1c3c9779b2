"""One network trained on arrays of every geometry: all must end in the same bits."""

from bench.figure import figure
from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.devices import Device
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import run_task
from support.host_perceptron import digits_by_host

CELLS = ((1, 1), (2, 2), (3, 2), (4, 1))
FORMATS = {
    "bfp4 4x4": ("bfp4", "4x4"),
    "bfp4 1x16": ("bfp4", "1x16"),
    **{name: (name, None) for name in ("mxfp8_e4m3", "fp8_e5m2", "nvfp4", "mxfp4_e2m1")},
}


def count_hashes(configs, stall_seeds, steps):
    """Return how many different weights the golden model and all machines end with."""

    def train(device):
        return run_task(digits_by_host(), device, backend="any", steps=steps).weights_sha256

    hashes = {train(NumpyDevice(configs[0].numerics))}
    for config in configs:
        for stalls in stall_seeds:
            with Device(cached_product(config), stalls=stalls) as device:
                hashes.add(train(device))
    return len(hashes)


def cells(rows, cols, **array):
    """Return a machine; the side of a block decides the bits, so it is 4 for all."""
    return {
        "name": f"cells_{rows}x{cols}_{'_'.join(array.values())}",
        "array": {"rows": rows, "cols": cols, "block": 4} | array,
    }


@figure(
    "hashes of 50 steps on 4 arrays, both transposes, two seeds of stalls", at_most=1, form="{}"
)
def geometry_hashes():
    configs = [
        from_document(cells(*size, transpose=where))
        for where in ("in_place", "edge")
        for size in CELLS
    ]
    return count_hashes(configs, (1, 2), 50)


@figure(
    "hashes of 12 steps on 3 arrays in {label}, with and without stalls",
    at_most=dict.fromkeys(FORMATS, 1),
    form="{}",
)
def geometry_formats(label):
    name, groups = FORMATS[label]
    keys = {"format": dict.fromkeys(CLASS_NAMES, name)}
    if groups is not None:
        keys["block"] = dict.fromkeys(CLASS_NAMES, groups)
    title = label.replace(" ", "_")
    configs = [
        from_document(cells(*size) | keys | {"name": f"cells_{size[0]}x{size[1]}_{title}"})
        for size in CELLS[:3]
    ]
    return count_hashes(configs, (None, 1), 12)
