"""Draw pictures of a product as SVG: blocks with sizes, and the steps of the first run."""

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from diastole.product.example import FirstRun
from diastole.product.facts import LICENCE, ProductFacts
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS

LINE = 16
"""Height of a line of text."""
_STYLE = (
    "text{font:12px sans-serif;fill:#1b1b1b}.t{font-weight:bold}.b{fill:#eef3f9;stroke:#35577d}"
    ".m{fill:#f7f2e4;stroke:#8a6d1d}.w{stroke:#35577d;fill:none;marker-end:url(#a)}"
    ".l{font-size:11px;fill:#35577d}.p{fill:#fff}.a{fill:#35577d}"
    "@media (prefers-color-scheme:dark){text{fill:#e8e6e3}.b{fill:#202a35;stroke:#8fb6e0}"
    ".m{fill:#2f2a1a;stroke:#d1b15a}.w{stroke:#8fb6e0}.l,.a{fill:#8fb6e0}.p{fill:#15181b}}"
)
"""Colours on light paper, and on dark paper where the reader prefers dark."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Rectangle with a title and lines of text below the title. ``memory``: True for a box outside
    of the machine."""

    x: int
    y: int
    width: int
    title: str
    lines: tuple[str, ...]
    memory: bool = False

    @property
    def height(self) -> int:
        return LINE * (len(self.lines) + 1) + 12

    def svg(self) -> Iterable[str]:
        """Yield the SVG elements of the box."""
        kind = "m" if self.memory else "b"
        yield (
            f'<rect class="{kind}" x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" rx="4"/>'
        )
        for number, line in enumerate((self.title, *self.lines)):
            bold = "" if number else ' class="t"'
            y = self.y + LINE * (number + 1) + 2
            yield f'<text{bold} x="{self.x + 8}" y="{y}">{escape(line)}</text>'


@dataclass(frozen=True, kw_only=True)
class Wire:
    """Arrow along ``points``, with a label at the first point."""

    points: tuple[tuple[int, int], ...]
    label: str = ""

    def svg(self) -> Iterable[str]:
        """Yield the SVG elements of the arrow."""
        path = " ".join(f"{x},{y}" for x, y in self.points)
        yield f'<polyline class="w" points="{path}"/>'
        if self.label:
            x, y = self.points[0]
            down = self.points[1][1] > y
            y += LINE if down else -4
            yield f'<text class="l" x="{x + 4}" y="{y}">{escape(self.label)}</text>'


def drawing(about: str, width: int, height: int, parts: Iterable[Box | Wire]) -> str:
    """Return an SVG file with ``parts``. ``about``: description of the picture, for readers who
    cannot see the picture."""
    lines = [
        f"<!-- SPDX-License-Identifier: {LICENCE} -->",
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">'
        ),
        f"<title>{escape(about)}</title>",
        f"<style>{_STYLE}</style>",
        (
            '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto"><path class="a" d="M0,0L8,4L0,8z"/></marker>'
            "</defs>"
        ),
        f'<rect class="p" width="{width}" height="{height}"/>',
    ]
    for part in parts:
        lines += part.svg()
    return "\n".join([*lines, "</svg>", ""])


def blocks(facts: ProductFacts) -> str:
    """Return a drawing of the machine's units, with sizes of the units and widths of the buses."""
    plan = facts.config.plan
    width = plan.data_width
    kib = sum(m["width"] * m["depth"] * m["instances"] for m in facts.memories) / 8192
    vector = plan.vector
    buses = f"AXI4, {width} bits" + (f", {plan.ports} ports" if plan.ports > 1 else "")
    ways = " and ".join(plan.directions)
    sums = f"{plan.sum_words} words behind each port"
    number = f"float, {plan.mantissa} bits" if plan.floats else f"{plan.accumulator_bits} bits each"
    boxes = [
        Box(x=20, y=40, width=150, title="Host", lines=("writes registers,", "waits for irq"),
            memory=True),
        Box(x=20, y=190, width=150, title="Memory", lines=("commands, floats,", "images"),
            memory=True),
        Box(x=240, y=40, width=190, title="Registers",
            lines=(f"AXI4-Lite, {1 << ADDRESS_SPACE_BITS} bytes", "irq: done or error")),
        Box(x=500, y=40, width=190, title="Command fetch",
            lines=("64 bytes each, checked", "2 in flight")),
        Box(x=240, y=190, width=190, title="Bus engines", lines=(buses, "windows, responses")),
        Box(x=500, y=160, width=190, title="Converter",
            lines=("floats to images", *_formats(facts))),
        Box(x=500, y=300, width=190, title="Scratchpads",
            lines=(f"streaming: {plan.stream_blocks} blocks a bank",
                   f"stationary: {plan.stationary_blocks} blocks a bank")),
        Box(x=760, y=300, width=190, title=f"Array, {plan.rows} x {plan.cols} cells",
            lines=(f"{plan.block} x {plan.block} multipliers each",
                   f"{plan.macs} in all", f"sums leave {ways}")),
        Box(x=760, y=160, width=190, title="Accumulators", lines=(sums, number, "drain as floats")),
    ]  # fmt: skip
    wires = [
        Wire(points=((170, 70), (240, 70)), label="s_axil"),
        Wire(points=((240, 85), (170, 85))),
        Wire(points=((430, 70), (500, 70)), label="start"),
        Wire(points=((170, 215), (240, 215)), label="m_axi"),
        Wire(points=((240, 235), (170, 235))),
        Wire(points=((430, 200), (500, 200)), label="floats"),
        Wire(points=((500, 215), (430, 215))),
        Wire(points=((335, 250), (335, 330), (500, 330)), label="images"),
        Wire(points=((690, 330), (760, 330)), label="blocks"),
        Wire(points=((855, 300), (855, 236)), label="sums"),
        Wire(points=((760, 185), (730, 185), (730, 130), (410, 130), (410, 190))),
    ]
    if vector is not None:
        lines = (f"{vector.block} lanes, {vector.specials} for exp and others",
                 f"panel of {vector.panel_vectors} x {vector.block} floats")  # fmt: skip
        boxes.append(Box(x=760, y=40, width=230, title="Vector unit", lines=lines))
        wires.append(Wire(points=((900, 160), (900, 100)), label="results"))
    about = f"{facts.name}: {plan.macs} multipliers, {kib:.1f} KiB of memories on the chip"
    return drawing(about, 1010, 420, [*boxes, *wires])


def first_run(facts: ProductFacts, run: FirstRun) -> str:
    """Return a drawing of the first run: steps of the host, steps of the machine, contents of
    memory."""
    m, n, k = (run.sizes[axis] for axis in ("m", "n", "k"))
    host = (
        ("1 memory", (f"X {m} x {k} and W {k} x {n} as floats", "three commands of 64 bytes")),
        ("2 registers", (f"{len(run.writes) - 1} writes: seed, windows,", "commands")),
        ("3 start", ("CONTROL = start and irq_enable",)),
        ("6 irq", ("STATUS.done is 1, or error", "read Y; write 1 to done")),
    )
    machine = (
        ("4 convert X, convert W", ("read floats, write images", "wait for write responses")),
        ("5 forward", (f"Y = X W, {m} x {n} floats", "the last response sets done")),
    )
    boxes = [
        Box(x=20, y=20 + 90 * row, width=240, title=title, lines=lines)
        for row, (title, lines) in enumerate(host)
    ]
    boxes += [
        Box(x=330, y=200 + 90 * row, width=220, title=title, lines=lines)
        for row, (title, lines) in enumerate(machine)
    ]
    places = [f"0x{place.address:08X}  {place.what}" for place in run.places.values()]
    boxes.append(Box(x=620, y=20, width=250, title="Memory", lines=tuple(places), memory=True))
    wires = [Wire(points=((140, 20 + 90 * row + 60), (140, 20 + 90 * row + 90))) for row in (0, 1)]
    wires += [
        Wire(points=((260, 220), (330, 220)), label="start"),
        Wire(points=((440, 260), (440, 290))),
        Wire(points=((330, 320), (260, 320))),
        Wire(
            points=((550, 220), (745, 220), (745, boxes[-1].y + boxes[-1].height)), label="images"
        ),
    ]
    return drawing(f"{facts.name}: from floats to a product", 890, 380, [*boxes, *wires])


def _formats(facts: ProductFacts) -> list[str]:
    """Return the formats of the classes as lines. Equal formats share a single line."""
    numerics = facts.config.numerics
    names = {name: numerics.tensor_class(name).format.name for name in ("x", "w", "dy")}
    if len(set(names.values())) == 1:
        return [f"X, W and dY: {names['x']}"]
    return [f"X {names['x']}, W {names['w']}", f"dY {names['dy']}"]
