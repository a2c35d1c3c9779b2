"""Whether a machine fits the chip of a board: what Yosys maps it to, and what the chip has."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from diastole.boards.describe import BoardKind
from diastole.report.synth_table import HEADINGS, usage
from diastole.synth.flow import Request, Synthesis, Tools, synthesise
from diastole.synth.mapper import Design, without_comments
from diastole.synth.targets import FPGAS
from diastole.synth.tree import Component
from diastole_sim.host.product import Product
from diastole_sim.system.cache import Cache, user_folder

FULL = 0.9
"""Of a chip: place and route of more may fail, or be slower than asked for."""
COUNTED = 2
"""The rules by which sites are counted: answers by other ones are asked for again."""
_RECORD = "fit.json"
_VECTOR_UNIT = re.compile(r"(.*_)?vector_engine")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a machine takes of a ``device``, by resource, and what there is.

    ``needs`` of a machine that is much too large are those of its cells alone, and ``at_least`` is
    true. ``vector``: what of them its vector unit takes, 0 without one. ``mapper``: the program and
    its version.
    """

    device: str
    needs: dict[str, float]
    holds: dict[str, int]
    vector: dict[str, float]
    at_least: bool
    mapper: str

    @property
    def lacking(self) -> list[str]:
        """The resources of which there are too few."""
        return self._lacking(self.needs)

    def _lacking(self, needs: Mapping[str, float]) -> list[str]:
        return [name for name, there in self.holds.items() if needs.get(name, 0) > there]

    @property
    def without_vector_unit(self) -> bool:
        """Whether it would fit without its vector unit."""
        rest = {name: used - self.vector.get(name, 0) for name, used in self.needs.items()}
        return bool(self.vector) and not self.at_least and not self._lacking(rest)

    @property
    def fullest(self) -> tuple[str, float]:
        """The resource that is used most, as people call it, and its share."""
        shares = {
            HEADINGS[name]: self.needs.get(name, 0) / there
            for name, there in self.holds.items()
            if there
        }
        return max(shares.items(), key=lambda each: each[1])

    @property
    def text(self) -> str:
        """All resources, for people."""
        cells = "its cells alone take " if self.at_least else ""
        return f"{cells}{usage(self.needs, self.holds)}"


def find_fit(
    kind: BoardKind, product: Product, files: Mapping[str, str], said: Callable[[str], None]
) -> Fit:
    """Map a product and the Verilog of its board, ``files`` by path, to the board's chip.

    The answer is kept in the user's cache folder for the same Verilog, the same Yosys and the same
    way of counting.
    ToolMissing without Yosys; CheckFailed if Yosys refuses.
    """
    target = FPGAS[kind.family]
    request = Request(target=target, device=kind.device, flat=True)
    tools = Tools.find(request)
    whole = whole_design(kind, product, files)
    parts = (whole.top, whole.machine, whole.memories, target.name, kind.device)
    counting = json.dumps([dict(target.cells), target.added.__name__, COUNTED])
    text = "\0".join((*map(without_comments, parts), json.dumps(tools.versions), counting))
    key = hashlib.sha256(text.encode()).hexdigest()[:24]

    def ask(folder: Path) -> None:
        said(f"asking Yosys what {product.name} takes of a {kind.device}: minutes, once")
        fit = _cells_alone(request, whole, product, tools)
        if fit is None or not fit.lacking:
            fit = _fit(synthesise(request, whole, tools, said))
        (folder / _RECORD).write_text(json.dumps(asdict(fit)))

    folder = Cache(user_folder() / "fits", say=said).get(key, ask)
    return Fit(**json.loads((folder / _RECORD).read_text()))


def whole_design(kind: BoardKind, product: Product, files: Mapping[str, str]) -> Design:
    """What goes on the chip: the product, and its bridge and memory where there is no processor."""
    design = Design.of_product(product.directory)
    if not kind.serial:
        return design
    top = f"{product.name}_board"
    own = {path: text for path, text in files.items() if re.match(rf"rtl/{top}\w*\.v", path)}
    return replace(
        design,
        top=top,
        machine=design.machine + own.pop(f"rtl/{top}.v"),
        memories=design.memories + "".join(own.values()),
    )


def _cells_alone(request: Request, whole: Design, product: Product, tools: Tools) -> Fit | None:
    """Of a machine of several cells what they take: quickly known, and often too much. None of one
    with a single cell."""
    cell = f"{product.top}_cell"
    count = product.parameters["rows"] * product.parameters["cols"]
    if count == 1 or not re.search(rf"^module {cell}\s*\(", whole.machine, re.MULTILINE):
        return None
    one = synthesise(request, replace(whole, top=cell), tools)
    needs = {name: count * each for name, each in one.tree.total.items()}
    return replace(_fit(one), needs=needs, vector={}, at_least=True)


def _fit(found: Synthesis) -> Fit:
    vector: dict[str, float] = {}
    for part in _vector_units(found.tree):
        for name, number in part.total.items():
            vector[name] = vector.get(name, 0) + number
    return Fit(
        device=found.request.device_name,
        needs={name: found.tree.total.get(name, 0) for name in found.holds},
        holds=dict(found.holds),
        vector={name: vector[name] for name in found.holds if name in vector},
        at_least=False,
        mapper=", ".join(f"{name} {version}" for name, version in found.versions.items()),
    )


def _vector_units(tree: Component) -> list[Component]:
    if _VECTOR_UNIT.fullmatch(tree.name):
        return [tree]
    return [unit for part in tree.parts for unit in _vector_units(part)]
