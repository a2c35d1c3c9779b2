"""Read lists of layers from a user's CSV file: products, or convolutions in the topology format of
SCALE-Sim."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from diastole.errors import BadInput
from diastole.files.content import read_content
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.require import excerpt, whole_number

MAX_REPEATS = 1 << 20
MAX_BYTES = 1 << 24
"""Largest file that is read: some hundred thousand layers."""
PRODUCT = ("m", "k", "n")
IMAGE = (
    "ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter",
)  # fmt: skip
STRIDE, STRIDES = ("strides",), ("stride height", "stride width")
ANY = ("name", "repeats", "batch")
GROUPS = "groups"
ALIASES = {
    "layer": "name", "layer name": "name", "batch size": "batch", "channel": "channels",
    "num filters": "num filter", "stride": "strides",
}  # fmt: skip
"""Headings that stand for a column of another name."""
DEPTHWISE_MARK = re.compile("(?<![A-Za-z])DP(?![A-Za-z])")
"""Mark of a depthwise layer: SCALE-Sim multiplies channel by channel if DP is in the layer's
name."""
ACCEPTED = (
    f"a first line with the columns {', '.join(PRODUCT)}, or {', '.join(IMAGE + STRIDE)} "
    f"(or {' and '.join(STRIDES)}) and optionally {GROUPS}; all files may have "
    f"{', '.join(ANY)}"
)

Kind: TypeAlias = "Callable[[_Line], NamedLayer | None]"


@dataclass(frozen=True, kw_only=True)
class NamedLayer:
    """Y (m x n) = X (m x k) W (k x n), ``repeats`` times in a network. ``depthwise``: the row of
    the file was read as a depthwise convolution, and ``repeats`` counts its channels."""

    name: str
    m: int
    k: int
    n: int
    repeats: int = 1
    depthwise: bool = False


def read_layers(path: Path, batch: int = 1) -> list[NamedLayer]:
    """Return the layers of a CSV file, in order. The name of a layer without a name is its line.

    M of every layer is multiplied by ``batch``, or by the batch column of the file.
    :class:`BadInput` with every mistake of the file, each with line and column. A value that is not
    read is a mistake.
    """
    content = read_content(path, MAX_BYTES, "list of layers")
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not a CSV file: the text is not UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"{path}: is not a CSV file: {error}") from error
    if not lines:
        raise BadInput(f"{path}: is empty; the file needs {ACCEPTED}")
    (first, heading), *rows = lines
    columns, kind = _columns(f"{path}: line {first}", heading)
    if "batch" in columns and batch != 1:
        raise BadInput(f"--batch must be left out, because {path} has a column batch")
    if not rows:
        raise BadInput(f"{path}: has no layer below line {first}")
    problems: list[str] = []
    layers: list[NamedLayer] = []
    for number, row in rows:
        line = _Line(path, number, columns, row, problems, batch)
        line.refuse_surplus()
        layer = kind(line)
        if layer is not None:
            layers.append(layer)
    if problems:
        raise BadInput(*problems)
    return layers


def _columns(where: str, heading: list[str]) -> tuple[dict[str, int], Kind]:
    """Return the place of every column, and the reader of a line. BadInput for a column that is not
    read, and for a repeated column."""
    headings = [" ".join(text.lower().split()) for text in heading]
    if "ifmap height" not in headings and headings.count("ifmap width") == 2:
        headings[headings.index("ifmap width")] = "ifmap height"  # as in some of SCALE-Sim's files
    names = [ALIASES.get(text, text) for text in headings]
    columns = {name: place for place, name in enumerate(names) if name}
    if all(name in columns for name in PRODUCT):
        kind, own = _product, PRODUCT
    elif all(name in columns for name in (*IMAGE, *STRIDES)):
        kind, own = _convolution, (*IMAGE, *STRIDES, GROUPS)
    elif all(name in columns for name in (*IMAGE, *STRIDE)):
        kind, own = _convolution, (*IMAGE, *STRIDE, GROUPS)
    else:
        have = ", ".join(columns) or "none"
        raise BadInput(f"{where}: the columns are {have}, but the file needs {ACCEPTED}")
    typed = {
        name: [text for text, column in zip(headings, names, strict=True) if column == name]
        for name in columns
    }
    problems = [
        f"{where}: {_repeated(name, texts)}" for name, texts in typed.items() if len(texts) > 1
    ]
    read = (*own, *ANY)
    problems += [
        f"{where}: the column {name} is not read: leave the column out; with {own[0]} the "
        f"file may have {', '.join(read)}"
        for name in columns
        if name not in read
    ]
    if problems:
        raise BadInput(*problems)
    return columns, kind


def _repeated(name: str, texts: list[str]) -> str:
    """Return the mistake of a repeated column, in the words of the file."""
    if len(set(texts)) == 1:
        return f"the column {texts[0]} appears {len(texts)} times: keep one"
    return f"the columns {' and '.join(texts)} all mean {name}: keep one"


class _Line:
    """A line of a file. Mistakes are added to ``problems``."""

    def __init__(
        self,
        path: Path,
        number: int,
        columns: Mapping[str, int],
        row: list[str],
        problems: list[str],
        batch: int,
    ):
        self.path, self.number, self.columns = path, number, columns
        self.row, self.problems, self.shared_batch = row, problems, batch

    def refuse_surplus(self) -> None:
        """Report cells without a heading."""
        places = set(self.columns.values())
        for place, text in enumerate(self.row):
            if text.strip() and place not in places:
                self.problem(f"cell {place + 1}", f"holds {text.strip()}, but has no heading")

    def text(self, column: str) -> str:
        place = self.columns[column]
        return self.row[place].strip() if place < len(self.row) else ""

    @property
    def name(self) -> str:
        named = self.text("name") if "name" in self.columns else ""
        return named or f"line {self.number}"

    def whole(self, column: str, limit: int = MAX_SIZE) -> int | None:
        """Return the number of a column. Report a mistake and return None if the cell has no
        number."""
        text = self.text(column)
        value = whole_number(text)
        if value is not None and 1 <= value <= limit:
            return value
        shown = excerpt(text) if text else "nothing"
        self.problem(column, f"must be an integer in 1..{limit}, not {shown}")
        return None

    def problem(self, column: str, text: str) -> None:
        self.problems.append(f"{self.path}: line {self.number}: {column} {text}")

    def wholes(self, columns: tuple[str, ...]) -> Iterator[int]:
        """Yield the numbers of columns with a valid number."""
        for column in columns:
            value = self.whole(column)
            if value is not None:
                yield value

    def optional(self, column: str, limit: int, default: int = 1) -> int:
        """Return the number of a column, or the default for an absent column or an empty cell."""
        if column not in self.columns or not self.text(column):
            return default
        return self.whole(column, limit) or default

    def layer(
        self,
        sizes: tuple[int, int, int],
        column: str,
        *,
        products: int = 1,
        depthwise: bool = False,
    ) -> NamedLayer | None:
        """Return the layer of one sample's sizes M, K, N, or None if the layer is too large.
        ``column`` is the source of M."""
        repeats = self.optional("repeats", MAX_REPEATS) * products
        batch = self.optional("batch", MAX_SIZE, self.shared_batch)
        m, k, n = sizes
        if m * batch > MAX_SIZE:
            of = f" with a batch of {batch}" if batch > 1 else ""
            self.problem(
                column, f"makes a side of {m * batch}{of}, but at most {MAX_SIZE} is possible"
            )
            return None
        return NamedLayer(
            name=self.name, m=m * batch, k=k, n=n, repeats=repeats, depthwise=depthwise
        )


def _product(line: _Line) -> NamedLayer | None:
    sizes = list(line.wholes(PRODUCT))
    if len(sizes) < len(PRODUCT):
        line.optional("repeats", MAX_REPEATS)  # reports every mistake of a line
        return None
    m, k, n = sizes
    return line.layer((m, k, n), "m")


def _convolution(line: _Line) -> NamedLayer | None:
    """Read a convolution by im2col: a row of X for each element of the output, a product for each
    group of channels."""
    columns = IMAGE + (STRIDE if STRIDE[0] in line.columns else STRIDES)
    sizes = list(line.wholes(columns))
    if len(sizes) < len(columns):
        line.optional("repeats", MAX_REPEATS)
        return None
    height, width, filter_height, filter_width, channels, filters, down, *right = sizes
    across = right[0] if right else down
    for column, of_filter, of_input in (
        ("filter height", filter_height, height),
        ("filter width", filter_width, width),
    ):
        if of_filter > of_input:
            line.problem(
                column, f"must be at most the size of the ifmap, {of_input}, not {of_filter}"
            )
            return None
    groups = line.optional(GROUPS, MAX_REPEATS, default=0)
    marked = DEPTHWISE_MARK.search(line.name) is not None
    single = filters == 1 and channels > 1 and filter_height * filter_width > 1
    depthwise = not groups and (marked or single)
    if depthwise:  # SCALE-Sim's number of filters is per channel
        groups, filters = channels, filters * channels
    groups = groups or 1
    if channels % groups or filters % groups:
        line.problem(GROUPS, f"must divide {channels} channels and {filters} filters, not {groups}")
        return None
    rows = ((height - filter_height) // down + 1) * ((width - filter_width) // across + 1)
    depth = filter_height * filter_width * channels // groups
    if depth > MAX_SIZE:
        line.problem("channels", f"makes a side of {depth}, but at most {MAX_SIZE} is possible")
        return None
    return line.layer(
        (rows, depth, filters // groups), "ifmap height", products=groups, depthwise=depthwise
    )
