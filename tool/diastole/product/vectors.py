"""A small run of a machine, for benches: memory before and after, registers to write and to read.

Every operation of the machine is in it, on signed tensors of odd shapes, and the images of all of
them. What must be there afterwards comes from the golden model.
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
    """What benches need. ``given`` and ``wanted``: all bytes of memory, from the base on.
    ``writes``, ``reads``: offset and value of words of registers, in order. ``floats``: X, W and
    dY; ``scales``: by them, the field of their conversions. ``product``: Y. ``training``: what the
    host in C does behind that."""

    sizes: dict[str, int]
    given: bytes
    wanted: bytes
    writes: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, int], ...]
    floats: dict[str, Floats]
    scales: dict[str, int]
    product: Floats
    training: Training

    def beats(self, content: bytes, beat_bytes: int) -> str:
        """Bytes as lines of hexadecimal digits, a beat each, for ``$readmemh``."""
        starts = range(0, len(content), beat_bytes)
        beats = (content[start : start + beat_bytes] for start in starts)
        return "".join(beat[::-1].hex() + "\n" for beat in beats)

    @staticmethod
    def words(accesses: tuple[tuple[int, int], ...]) -> str:
        """Accesses to registers likewise: 12 bits of offset, 32 of value."""
        return "".join(f"{offset:03x}{value:08x}\n" for offset, value in accesses)


def make_vectors(view: HostView, base: int = BASE) -> Vectors:
    """Of a machine; the same for the same configuration. ``base``: where memory begins."""
    scene = Scene(view, base)
    chains = ChainScene(scene) if view.limits.has_vector else None
    scene.convert_all()
    for opcode, operation in PRODUCTS.items():
        scene.multiply(opcode, operation)
    if chains is not None:
        chains.run_all()
    return Vectors(
        sizes=scene.sizes,
        given=scene.given,
        wanted=scene.wanted,
        writes=tuple(scene.writes()),
        reads=tuple(scene.reads()),
        floats=scene.floats,
        scales=scene.fields,
        product=scene.products[0].values,
        training=train_layer(view, scene.floats, scene.fields),
    )


def c_vectors(view: HostView, vectors: Vectors) -> str:
    """X, W and Y in C, for the host, and its training: targets, rate and losses."""
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
