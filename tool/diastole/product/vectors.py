"""Make a small run of a machine for benches: memory before and after, registers to write and read.

The run contains every operation of the machine, on signed tensors of odd shapes, and the images of
all tensors. The expected results come from the golden model.
"""

from dataclasses import dataclass

import numpy as np

from diastole.product.chain_scene import ChainScene
from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole.product.scene import BASE, SEED, STEP, Floats, Scene
from diastole.product.training import STEPS, Training, train_layer
from diastole_sim.spec.command_table import PRODUCTS


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """Data for benches. ``inputs``, ``expected``: all bytes of memory from the base on, before and
    after the run. ``writes``, ``reads``: offset and value of register words, in order. ``floats``:
    X, W and dY. ``scales``: scale fields of the conversions of X, W and dY. ``product``: Y.
    ``training``: training that the C host does after the product."""

    sizes: dict[str, int]
    inputs: bytes
    expected: bytes
    writes: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, int], ...]
    floats: dict[str, Floats]
    scales: dict[str, int]
    product: Floats
    training: Training

    def beats(self, content: bytes, beat_bytes: int) -> str:
        """Return bytes as lines of hexadecimal digits for ``$readmemh``, a beat per line."""
        starts = range(0, len(content), beat_bytes)
        beats = (content[start : start + beat_bytes] for start in starts)
        return "".join(beat[::-1].hex() + "\n" for beat in beats)

    @staticmethod
    def words(accesses: tuple[tuple[int, int], ...]) -> str:
        """Return accesses to registers as hexadecimal lines: 12 bits of offset, 32 bits of
        value."""
        return "".join(f"{offset:03x}{value:08x}\n" for offset, value in accesses)


def make_vectors(view: HostView, base: int = BASE) -> Vectors:
    """Return the vectors of a machine. Equal configurations give equal vectors. ``base``: first
    address of the memory."""
    scene = Scene(view, base)
    chains = ChainScene(scene) if view.limits.has_vector else None
    scene.convert_all()
    for opcode, operation in PRODUCTS.items():
        scene.multiply(opcode, operation)
    if chains is not None:
        chains.run_all()
    return Vectors(
        sizes=scene.sizes,
        inputs=scene.inputs,
        expected=scene.expected,
        writes=tuple(scene.writes()),
        reads=tuple(scene.reads()),
        floats=scene.floats,
        scales=scene.fields,
        product=scene.products[0].values,
        training=train_layer(view, scene.floats, scene.fields),
    )


def c_vectors(view: HostView, vectors: Vectors) -> str:
    """Return X, W and Y in C for the host, with the targets, the rate and the losses of the
    training."""
    prefix, name, training = view.prefix, view.name, vectors.training
    lines = [
        f"/* SPDX-License-Identifier: {LICENCE} */",
        f"/* {view.origin}; do not edit. Bits of binary32. */",
        *(
            f"#ifndef {prefix}_VECTORS_H",
            f"#define {prefix}_VECTORS_H",
            "",
            "#include <stdint.h>",
            "",
        ),
        *(
            f"#define {prefix}_VECTORS_{axis.upper()} {size}"
            for axis, size in vectors.sizes.items()
        ),
        f"#define {prefix}_VECTORS_SEED 0x{SEED:X}u",
        f"#define {prefix}_VECTORS_STEP {STEP}",
        f"#define {prefix}_VECTORS_STEPS {STEPS}",
        f"#define {prefix}_VECTORS_RATE 0x{_bits(np.float32(training.rate))[0]:08X}u",
    ]
    arrays = {each: vectors.floats[each] for each in ("X", "W")}
    for each, values in arrays.items():
        largest = float(np.abs(values).max())
        lines.append(f"#define {prefix}_VECTORS_SCALE_{each} {vectors.scales[each]}")
        lines.append(f"#define {prefix}_VECTORS_LARGEST_{each} {largest!r}")
    arrays |= {"Y": vectors.product, "T": training.targets, "losses": training.losses}
    for each, values in arrays.items():
        words = [f"0x{word:08X}u" for word in _bits(values)]
        rows = [", ".join(words[at : at + 7]) for at in range(0, len(words), 7)]
        lines += ["", f"static const uint32_t {name}_vectors_{each.lower()}[{len(words)}] = {{"]
        lines += [f"    {row}," for row in rows] + ["};"]
    return "\n".join([*lines, "", "#endif", ""])


def _bits(values: Floats | np.float32) -> list[int]:
    return np.asarray(values, np.float32).reshape(-1).view(np.uint32).tolist()
