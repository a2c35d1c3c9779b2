"""Products of square tensors of normal numbers, in the generated Verilog."""

import numpy as np

from diastole_sim.spec.operations import OPERATIONS


def operands(side):
    """Return X, W and dY, the same in every run."""
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal((side, side)).astype(np.float32) for n in ("X", "W", "dY")}


def converted(device, tensors, widths=None):
    """Return the tensors as a device holds them; ``widths`` by name, where a format has several."""
    return {
        name: device.convert(array, name.lower(), tag=tag, width=(widths or {}).get(name))
        for tag, (name, array) in enumerate(tensors.items())
    }


def multiply(device, op, tensors):
    return getattr(device, op)(*(tensors[name] for name in OPERATIONS[op].operand_names))


def used(config, result, side):
    """Return the share of the multipliers' slots that a product used."""
    return side**3 * len(result.values) / result.counters.cycles / config.macs


def wrong_elements(result, expected):
    """Return how many elements of a result differ from another's in any bit."""
    return sum(
        int((values.view(np.uint32) != expected.values[name].view(np.uint32)).sum())
        for name, values in result.values.items()
    )
