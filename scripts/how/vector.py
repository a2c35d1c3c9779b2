"""The core of the vector unit, and the slots of one program over cycles."""

from dataclasses import replace

from diastole.config.presets import PRESETS
from diastole.layers.modelled_step import STEP
from diastole_sim.perf.chain_times import ChainCore
from diastole_sim.program.assembly import disassemble
from diastole_sim.spec.micro import REGISTERS, When
from diastole_sim.spec.sizes.vector_shape import PIPELINE

from .canvas import WIDTH, Canvas
from .step import commands_of_step

LEFT, TOP, LINE = 204, 150, 15


class Recorded(ChainCore):
    """Model of a chain that keeps the slot of every instruction."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.slots = []

    def _instruction(self, instruction, block, there):
        super()._instruction(instruction, block, there)
        self.slots.append((self.slot, instruction))


def draw() -> str:
    """Draw a line of blocks of the longest chain in a step of the digits on nano."""
    model, commands, _ = commands_of_step()
    command = max(commands, key=lambda each: each.program_length)
    vector = model.vector
    task = model.tables.task(command, block=vector.block, step=STEP)
    core = Recorded(vector, task)
    for block in task.blocks():
        core.block(block)
        if block.last:  # the first line of blocks
            break
    first = core.slots[0][0]
    end = core.slots[-1][0] + vector.slot
    used, special = len(core.slots), sum(each.special for _, each in core.slots)
    picture = Canvas(
        "Units of the core, and the slots of the softmax program",
        f"A line of blocks of the chain for softmax and loss of the digits: {used} instructions in "
        f"{end - first} cycles. {special} of them use the special lanes; some wait for a result.",
    )
    _units(picture)
    picture.text(8, TOP - 32, "Slots of softmax and loss, for eight rows", size=13, bold=True)
    scale = (WIDTH - LEFT - 8) / (end - first)
    last = TOP + LINE * used
    for cycle in range(0, end - first, 100):
        x = LEFT + cycle * scale
        picture.line(x, TOP - 4, x, last, dashed=True)
        picture.text(x, TOP - 8, f"{cycle}", anchor="start", colour="faint")
    for number, (slot, instruction) in enumerate(core.slots):
        y, x = TOP + LINE * number, LEFT + (slot - first) * scale
        words = disassemble([replace(instruction, when=When.ALWAYS)]).strip()
        picture.text(8, y + 11, words, mono=True)
        if instruction.special:
            long = min(vector.special_cycles, end - slot) * scale
            picture.rect(x, y + 3, long, 9, stroke="held", fill="cell")
        picture.rect(x, y + 3, vector.slot * scale, 9, fill="stream")
    picture.rect(8, last + 10, 10, 9, fill="stream")
    picture.text(24, last + 19, f"slot of {vector.slot} cycles in the lanes")
    picture.rect(200, last + 10, 10, 9, fill="cell", stroke="held")
    picture.text(216, last + 19, "special lanes at work")
    picture.text(
        8, last + 36, f"{end - first} cycles for {used} slots: lanes wait for special lanes."
    )
    return picture.svg()


def _units(picture: Canvas) -> None:
    """Draw the units with the sizes of nano."""
    shape = PRESETS["nano"].plan.vector
    picture.text(8, 18, "Core of the preset nano", size=13, bold=True)
    boxes = [
        (8, f"{REGISTERS} registers", f"{shape.block} x {shape.block} floats each"),
        (140, f"{shape.block} lanes", f"x, + in {PIPELINE} cycles"),
        (272, f"{shape.specials} special lanes", "exp, 1/x, log"),
    ]
    for x, title, words in boxes:
        picture.rect(x, 30, 120, 40, fill="panel", stroke="line")
        picture.text(x + 60, 46, title, anchor="middle", bold=True)
        picture.text(x + 60, 62, words, anchor="middle")
    picture.line(128, 44, 140, 44, colour="stream", arrow=True)
    picture.line(140, 58, 128, 58, colour="sums", arrow=True)
    picture.line(260, 44, 272, 44, colour="stream", arrow=True)
    picture.line(272, 58, 260, 58, colour="sums", arrow=True)
    kib = shape.panel_vectors * shape.block * 4 // 1024
    picture.text(8, 90, f"panel of {kib} KiB; up to four input and four output streams")
