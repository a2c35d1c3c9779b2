"""What product engines are given in tests, and what they must make of it."""

import numpy as np

from diastole_hw.plan.modes import Mode
from diastole_sim.spec.image import image_layouts
from support.nests import blocks_of, drawn_nest

GUARD = 64  # bytes around every tensor that nobody may touch


# The copy that each mode reads of a tensor that has two.
READ = {
    Mode.FORWARD: {"x": 0, "w": 1, "dy": 0},
    Mode.DX: {"x": 0, "w": 0, "dy": 0},
    Mode.DW: {"x": 1, "w": 0, "dy": 1},
    Mode.FUSED: {"x": 1, "w": 0, "dy": 0},
}


def image_of(q, copy, data_width):
    layouts = image_layouts(q.storage, q.shape, block=q.block, data_width=data_width)
    number = copy if len(layouts) == 2 else 0
    exponent = q.tensor_exponent if layouts[number].header else None
    return layouts[number].pack(q.copies[number], exponent)


def tensors(m, n, k, seed, special):
    rng = np.random.default_rng(seed)

    def one(rows, cols):
        values = rng.standard_normal((rows, cols)) * np.exp2(rng.integers(-6, 6, (rows, cols)))
        values[rng.random((rows, cols)) < 0.1] = 0
        values[: rows // 2] *= 2.0**-9  # rows that the others leave far behind
        if special:
            values[rng.random((rows, cols)) < 0.01] = np.nan
            values[rng.random((rows, cols)) < 0.01] = -np.inf
        return values.astype(np.float32)

    return {"X": one(m, k), "W": one(k, n), "dY": one(m, n)}


def asked_of(golden, mode, x, w, dy):
    """The results that a mode must give, by what it is called."""
    match mode:
        case Mode.FORWARD:
            return {"y": golden.forward(x, w)}
        case Mode.DX:
            return {"dx": golden.dx(w, dy)}
        case Mode.DW:
            return {"dw": golden.dw(x, dy)}
    return dict.fromkeys(("dx", "dw"), golden.backward(x, w, dy))


def random_nest(plan, mode, sizes, rng):
    """One that the machine takes for these sizes."""
    name = mode.name.lower()
    return drawn_nest(plan.nests.of(name), blocks_of(name, sizes, plan.block), rng)
