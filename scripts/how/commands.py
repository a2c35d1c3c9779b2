"""Commands in flight over a step: when each begins and ends, and when the array is busy."""

from .canvas import WIDTH, Canvas
from .step import commands_of_step

LEFT, TOP, LINE = 130, 52, 30


def draw() -> str:
    """Draw the commands of a step of the digits on nano, by the model of the machine."""
    _, commands, estimate = commands_of_step()
    picture = Canvas(
        "Commands in flight in a training step",
        f"{len(commands)} commands of a step of the digits on nano, in {estimate.cycles} cycles. "
        "Commands with the bit ahead begin before the command before is done; two at most overlap.",
    )
    picture.text(8, 18, "A step of the digits on nano", size=13, bold=True)
    scale = (WIDTH - LEFT - 10) / estimate.cycles
    bottom = TOP + LINE * len(commands)
    for cycle in range(0, estimate.cycles, 2500):
        x = LEFT + cycle * scale
        picture.line(x, TOP - 6, x, bottom, dashed=True)
        picture.text(x, TOP - 10, f"{cycle}", colour="faint", anchor="middle")
    for number, (command, times) in enumerate(zip(commands, estimate.commands, strict=True)):
        y = TOP + LINE * number
        name = times.opcode.name.lower().replace("_chain", " + chain")
        sizes = " x ".join(f"{each}" for each in (command.m, command.n, command.k) if each)
        picture.text(8, y + 10, name + (", update" if times.update else ""), bold=True)
        if sizes:
            picture.text(8, y + 23, sizes, colour="faint")
        x, long = LEFT + times.started * scale, (times.done - times.started) * scale
        ahead = bool(command.ahead)
        fill, stroke = ("cell", "held") if ahead else ("panel", "faint")
        picture.rect(x, y + 1, max(long, 1), 13, fill=fill, stroke=stroke)
        if times.slots:
            picture.rect(x, y + 17, times.slots * scale, 4, fill="stream")
    for x, y, fill, stroke, words in (
        (8, 12, "cell", "held", "ahead = 1: begins beside the command before"),
        (8, 28, "panel", "faint", "ahead = 0: the command before is done"),
    ):
        picture.rect(x, bottom + y, 14, 9, fill=fill, stroke=stroke)
        picture.text(x + 22, bottom + y + 9, words)
    busy = sum(each.slots for each in estimate.commands)
    picture.rect(8, bottom + 46, 14, 4, fill="stream")
    picture.text(30, bottom + 53, f"length of its slots: {busy} of {estimate.cycles} cycles in all")
    return picture.svg()
