"""Decide whether a machine fits the chip of a board, from the cells that Yosys maps the machine
to."""

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
"""Share of a chip above which place and route may fail, or be slower than requested."""
COUNTED = 2
"""Version of the rules that count sites. A cached answer of another version is computed again."""
_RECORD = "fit.json"
_VECTOR_UNIT = re.compile(r"(.*_)?vector_engine")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Resources that a machine takes of a ``device``, and the resources of the device.

    - ``needs``: resources of the machine. For a machine that is much too large, resources of the
      cells alone, with ``at_least`` true.
    - ``holds``: resources of the device.
    - ``vector``: share of the vector unit in ``needs``, empty without a vector unit.
    - ``mapper``: the mapping program and its version.
    """

    device: str
    needs: dict[str, float]
    holds: dict[str, int]
    vector: dict[str, float]
    at_least: bool
    mapper: str

    @property
    def lacking(self) -> list[str]:
        """Names of the resources of which the device has too few."""
        return self._lacking(self.needs)

    def _lacking(self, needs: Mapping[str, float]) -> list[str]:
        return [name for name, there in self.holds.items() if needs.get(name, 0) > there]

    @property
    def without_vector_unit(self) -> bool:
        """True if the machine would fit without its vector unit."""
        rest = {name: used - self.vector.get(name, 0) for name, used in self.needs.items()}
        return bool(self.vector) and not self.at_least and not self._lacking(rest)

    @property
    def fullest(self) -> tuple[str, float]:
        """Name for people of the resource with the largest share in use, and the share."""
        shares = {
            HEADINGS[name]: self.needs.get(name, 0) / there
            for name, there in self.holds.items()
            if there
        }
        return max(shares.items(), key=lambda each: each[1])

    @property
    def text(self) -> str:
        """Text of all resources, for people."""
        cells = "its cells alone take " if self.at_least else ""
        return f"{cells}{usage(self.needs, self.holds)}"


def find_fit(
    kind: BoardKind, product: Product, files: Mapping[str, str], report: Callable[[str], None]
) -> Fit:
    """Map a product and the Verilog of its board, ``files`` by path, to the chip of the board.

    The cache folder of the user keeps the answer for equal Verilog, an equal version of Yosys and
    equal rules of counting. ToolMissing without Yosys; CheckFailed if Yosys refuses.
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
        report(
            f"Yosys counts the resources of {product.name} on a {kind.device}, once; the count "
            "takes minutes"
        )
        fit = _cells_alone(request, whole, product, tools)
        if fit is None or not fit.lacking:
            fit = _fit(synthesise(request, whole, tools, report))
        (folder / _RECORD).write_text(json.dumps(asdict(fit)))

    folder = Cache(user_folder() / "fits", say=report).get(key, ask)
    return Fit(**json.loads((folder / _RECORD).read_text()))


def whole_design(kind: BoardKind, product: Product, files: Mapping[str, str]) -> Design:
    """Return the design of the chip: the product and, for a board without a processor, bridge and
    memory."""
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
    """Return the resources of all cells of a machine, from the synthesis of one cell. The answer is
    quick, and often shows that the machine is too large. None for a machine with a single cell, or
    without a module of a cell."""
    cell = f"{product.top}_cell"
    count = product.parameters["rows"] * product.parameters["cols"]
    if count == 1 or not re.search(rf"^module {cell}\s*\(", whole.machine, re.MULTILINE):
        return None
    one = synthesise(request, replace(whole, top=cell), tools)
    needs = {name: count * each for name, each in one.tree.total.items()}
    return replace(_fit(one), needs=needs, vector={}, at_least=True)


def _fit(synthesis: Synthesis) -> Fit:
    vector: dict[str, float] = {}
    for part in _vector_units(synthesis.tree):
        for name, number in part.total.items():
            vector[name] = vector.get(name, 0) + number
    return Fit(
        device=synthesis.request.device_name,
        needs={name: synthesis.tree.total.get(name, 0) for name in synthesis.holds},
        holds=dict(synthesis.holds),
        vector={name: vector[name] for name in synthesis.holds if name in vector},
        at_least=False,
        mapper=", ".join(f"{name} {version}" for name, version in synthesis.versions.items()),
    )


def _vector_units(tree: Component) -> list[Component]:
    if _VECTOR_UNIT.fullmatch(tree.name):
        return [tree]
    return [unit for part in tree.parts for unit in _vector_units(part)]
