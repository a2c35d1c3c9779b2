"""Lists of layers in a user's CSV file: products, or convolutions as SCALE-Sim's topologies have
them."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from diastole.errors import BadInput
from diastole.files.reading import read_content
from diastole_sim.spec.check import shown, whole_number
from diastole_sim.spec.image import MAX_SIZE

MOST_REPEATS = 1 << 20
MAX_BYTES = 1 << 24
"""Of a file that is read: some hundred thousand layers."""
NAMES = ("name", "layer", "layer name")
PRODUCT = ("m", "k", "n")
CONVOLUTION = (
    "ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter",
    "strides",
)  # fmt: skip
ACCEPTED = (
    f"a first line with the columns {', '.join(PRODUCT)}, or {', '.join(CONVOLUTION)}; a name or "
    "layer, and repeats, if there are any"
)


@dataclass(frozen=True, kw_only=True)
class NamedLayer:
    """Y (m x n) = X (m x k) W (k x n), ``repeats`` times in a network."""

    name: str
    m: int
    k: int
    n: int
    repeats: int = 1


def read_layers(path: Path) -> list[NamedLayer]:
    """The layers of a CSV file, in its order; those without a name are called by their line.

    :class:`BadInput` with every mistake of the file, each with its line and column.
    """
    content = read_content(path, MAX_BYTES, "list of layers")
    try:
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        lines = [(number, row) for number, row in enumerate(csv.reader(text), 1) if any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: is no CSV file: {error}") from error
    if not lines:
        raise BadInput(f"{path}: is empty; {ACCEPTED}")
    (first, heading), *rows = lines
    columns = {text.strip().lower(): place for place, text in enumerate(heading) if text.strip()}
    reads = _reader(columns)
    if reads is None:
        have = ", ".join(columns) or "none"
        raise BadInput(f"{path}: line {first}: its columns are {have}; it needs {ACCEPTED}")
    if not rows:
        raise BadInput(f"{path}: has no layer below line {first}")
    problems: list[str] = []
    layers: list[NamedLayer] = []
    for number, row in rows:
        line = _Line(path, number, columns, row, problems)
        layer = reads(line)
        if layer is not None:
            layers.append(layer)
    if problems:
        raise BadInput(*problems)
    return layers


def _reader(columns: Mapping[str, int]) -> "Callable[[_Line], NamedLayer | None] | None":
    if all(name in columns for name in PRODUCT):
        return _product
    if all(name in columns for name in CONVOLUTION):
        return _convolution
    return None


class _Line:
    """Of a file; what is wrong with it goes to ``problems``."""

    def __init__(
        self,
        path: Path,
        number: int,
        columns: Mapping[str, int],
        row: list[str],
        problems: list[str],
    ):
        self.path, self.number = path, number
        self.columns, self.row, self.problems = columns, row, problems

    def text(self, column: str) -> str:
        place = self.columns[column]
        return self.row[place].strip() if place < len(self.row) else ""

    @property
    def name(self) -> str:
        named = (self.text(column) for column in NAMES if column in self.columns)
        return next(filter(None, named), f"line {self.number}")

    def whole(self, column: str, most: int = MAX_SIZE) -> int | None:
        """A number of a column, or None, and then a problem says why."""
        text = self.text(column)
        value = whole_number(text)
        if value is not None and 1 <= value <= most:
            return value
        self.problem(column, f"must be an integer in 1..{most}, not {shown(text) or 'nothing'}")
        return None

    def problem(self, column: str, text: str) -> None:
        self.problems.append(f"{self.path}: line {self.number}: {column} {text}")

    def wholes(self, columns: tuple[str, ...]) -> Iterator[int]:
        """Those of columns that have one."""
        for column in columns:
            value = self.whole(column)
            if value is not None:
                yield value

    @property
    def repeats(self) -> int:
        if "repeats" not in self.columns or not self.text("repeats"):
            return 1
        return self.whole("repeats", MOST_REPEATS) or 1


def _product(line: _Line) -> NamedLayer | None:
    sizes = list(line.wholes(PRODUCT))
    repeats = line.repeats
    if len(sizes) < len(PRODUCT):
        return None
    m, k, n = sizes
    return NamedLayer(name=line.name, m=m, k=k, n=n, repeats=repeats)


def _convolution(line: _Line) -> NamedLayer | None:
    """By im2col: a row of X for each element of the output."""
    sizes = list(line.wholes(CONVOLUTION))
    repeats = line.repeats
    if len(sizes) < len(CONVOLUTION):
        return None
    height, width, filter_height, filter_width, channels, filters, stride = sizes
    for column, of_filter, of_input in (
        ("filter height", filter_height, height),
        ("filter width", filter_width, width),
    ):
        if of_filter > of_input:
            line.problem(column, f"must be at most that of the ifmap, {of_input}, not {of_filter}")
            return None
    rows = ((height - filter_height) // stride + 1) * ((width - filter_width) // stride + 1)
    depth = filter_height * filter_width * channels
    for column, size in (("ifmap height", rows), ("channels", depth)):
        if size > MAX_SIZE:
            line.problem(column, f"makes a side of {size}, at most {MAX_SIZE} is possible")
            return None
    return NamedLayer(name=line.name, m=rows, k=depth, n=filters, repeats=repeats)
