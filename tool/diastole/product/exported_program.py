"""Write a program for a host without Python: memory image, addresses and counts for C, and a host
program over the driver of the product."""

from collections.abc import Iterator, Sequence

from diastole.product.c_driver import TEXTS, named
from diastole.product.host_view import HostView
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.program.addresses import ADDRESS_BYTES
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.program import EVALUATION, LOSSES, OUTPUT, TRAINING, TrainingProgram
from diastole_sim.program.relocation import address_places, memory_image

PER_LINE = 12
"""Numbers on a line of a C array."""


def exported(view: HostView, program: TrainingProgram, *, seed: int) -> dict[str, bytes]:
    """Return the contents of the files by name, for the machine of a view.

    - ``program.bin``: memory from address 0 on, as the host fills the memory.
    - ``program.h``: places, counts and settings for C, and the places of all addresses in the
      image.
    - ``train.c``: host program.
    """
    host = (TEXTS / "train_program.c").read_text(encoding="utf-8")
    return {
        "program.bin": memory_image(program).tobytes(),
        "program.h": named(view, _header(view, program, seed)).encode(),
        "train.c": named(view, host).encode(),
    }


def _header(view: HostView, program: TrainingProgram, seed: int) -> str:
    scale = LossScale() if program.loss_scaling is None else program.loss_scaling.begin()
    places = address_places(program)
    areas = program.areas
    numbers = [
        ("CONFIG_HASH", f"{view.identification:#x}", "configuration of the machine"),
        ("BYTES", program.memory_bytes, "bytes of memory, and of the image"),
        ("SEED", seed, "seed of all random bits"),
        ("STEPS", program.steps, "steps of the training"),
        ("TRAINING", areas[TRAINING].address, "offset of the commands of the training"),
        ("TRAINING_COUNT", len(program.training), "commands of the training"),
        ("RESUME", program.resume, "first command of every start but the first"),
        ("EVALUATION", areas[EVALUATION].address, "offset of the commands of an evaluation"),
        ("EVALUATION_COUNT", len(program.evaluation), "commands of an evaluation"),
        ("LOSSES", areas[LOSSES].address, "offset of the losses of all steps"),
        ("LOSSES_PITCH", areas[LOSSES].pitch, "bytes from the loss of a step to the next"),
        ("LOSS_SCALE", f"{scale.register:#x}", "register LOSS_SCALE before step 0"),
        ("LOSS_WINDOW", scale.window, "register LOSS_WINDOW"),
        ("ADDRESSES", len(places), "addresses in the image"),
        ("ADDRESS_BYTES", ADDRESS_BYTES, "bytes of an address"),
        ("PARAMETERS", len(program.parameters), "parameters"),
    ]
    lines = [
        "/* Program of a training. Offsets are bytes from the first byte of the memory. */",
        "#ifndef MACHINE_PROGRAM_H",
        "#define MACHINE_PROGRAM_H",
        "",
        "#include <stdint.h>",
        "",
        *(f"#define PROGRAM_{name} {value}u /* {about} */" for name, value, about in numbers),
        "",
        "/* Matrix of floats, row after row. `pitch`: bytes from a row to the next row. A weight",
        "   has a row for every input, and a bias has one row. */",
        "typedef struct program_tensor {",
        "    const char *name;",
        "    uint64_t offset;",
        "    uint32_t rows, cols, pitch;",
        "} program_tensor;",
        "",
        "/* Parameters of the network, in the order of the layers. */",
        "static const program_tensor program_parameters[] = {",
        *(f"    {_tensor(areas[name])}," for name in program.parameters),
        "};",
        "",
        "/* Result of an evaluation: a row for every held-out sample. */",
        f"static const program_tensor program_result = {_tensor(areas[OUTPUT])};",
        "",
        "/* Offsets of the addresses in the image. The host adds the address of the memory. */",
        "static const uint32_t program_addresses[] = {",
        *_rows(places),
        "};",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _tensor(area: PlannedArea) -> str:
    rows, cols = area.shape if len(area.shape) == 2 else (1, area.shape[0])
    return f'{{"{area.name}", {area.address:#x}u, {rows}, {cols}, {area.pitch}}}'


def _rows(numbers: Sequence[int]) -> Iterator[str]:
    for first in range(0, len(numbers), PER_LINE):
        yield f"    {', '.join(map(str, numbers[first : first + PER_LINE]))},"
