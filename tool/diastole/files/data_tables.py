"""Read a user's samples for a network: a CSV file, an .npz file, or a folder of .npy files."""

import csv
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput
from diastole.files.archive import Archive, Unreadable
from diastole.files.content import read_content
from diastole_sim.spec.require import excerpt, real_number

INPUTS, TARGETS, LABELS = "inputs", "targets", "labels"
FEWEST = 10
"""Least number of samples."""
MAX_CLASSES = 65_536
MAX_BYTES = 1 << 31
"""Largest file."""
LARGEST = float(np.finfo(np.float32).max)
_WHOLE = re.compile(r"-?[0-9]{1,18}")
SHOWN = 5
"""Most mistakes of one file in a message."""


@dataclass(frozen=True, kw_only=True)
class DataTable:
    """Samples of a file.

    - ``inputs``: (samples, features, or more axes) in float32.
    - ``targets``: labels (samples,) as integers from 0 on, numbers to learn (samples, columns) in
      float32, or None for samples without targets.
    - ``features``, ``outputs``: names of the columns.
    - ``classes``: name of every label; None for numbers to learn.
    """

    inputs: NDArray[np.float32]
    targets: NDArray[Any] | None
    features: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None


def read_table(
    path: Path,
    *,
    labels: bool,
    outputs: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
) -> DataTable:
    """Return samples with targets.

    - ``labels``: True if the targets are labels.
    - ``outputs``: columns of the targets in a CSV file; None for the last column.
    - ``classes``: name of every label, if known; a target of another class is a mistake.
    - ``features``: columns of the inputs in a CSV file; None for all columns that are no targets.

    BadInput with the sample and the column of every mistake.
    """
    if path.suffix.lower() == ".csv":
        rows = _CsvTable(path)
        if features is None:
            names = rows.chosen(outputs)
            features = [name for name in rows.columns if name not in names]
        else:  # of a network
            names = list(outputs or ())
            rows.require([*features, *names])
        if not features:
            hint = "; the columns must be separated by commas" * (";" in rows.columns[0])
            raise BadInput(f"{path}: every column is a target, but a sample needs features{hint}")
        if labels and len(names) != 1:
            raise BadInput(f"{path}: labels are in one column, but --target has {len(names)}")
        if labels:
            inputs = rows.numbers(features)
            found, known = _labelled(path, rows.texts(names[0]), classes, rows.line)
            return _checked(path, inputs, found, features, names, known)
        numbers = rows.numbers([*features, *names])  # mistakes of all columns in one message
        inputs, targets = (
            np.ascontiguousarray(part) for part in np.hsplit(numbers, [len(features)])
        )
        return _checked(path, inputs, targets, features, names, None)
    arrays = _arrays(path)
    inputs = _inputs(path, arrays)
    columns = [f"{INPUTS}[{n}]" for n in range(int(np.prod(inputs.shape[1:])))]
    name = next((each for each in (TARGETS, LABELS) if each in arrays), None)
    if name is None:
        raise BadInput(
            f"{path}: the arrays {INPUTS} and {TARGETS} are needed, but there is "
            f"{', '.join(arrays) or 'nothing'}"
        )
    found = arrays[name]
    if found.ndim == 0:
        raise BadInput(f"{path}: {name} must have an entry for every sample, not a single number")
    if len(found) != len(inputs):
        raise BadInput(f"{path}: {name} has {len(found)} samples, but {INPUTS} has {len(inputs)}")
    if labels:
        if found.dtype.kind not in "iu" or found.ndim != 1:
            raise BadInput(
                f"{path}: {name} must be integers (samples), not {found.dtype} of shape "
                f"{found.shape}"
            )
        texts = [str(each) for each in found.tolist()]
        found, known = _labelled(path, texts, classes, "sample {}".format)
        return _checked(path, inputs, found, columns, [name], known)
    numbers = _floats(path, name, found.reshape(len(found), -1))
    learnt = [f"{name}[{n}]" for n in range(numbers.shape[1])]
    return _checked(path, inputs, numbers, columns, learnt, None)


def read_inputs(path: Path, features: Sequence[str]) -> DataTable:
    """Return samples without targets. A CSV file has the named ``features``, in any order, and may
    have further columns."""
    if path.suffix.lower() == ".csv":
        rows = _CsvTable(path)
        if not rows.has_header and len(rows.columns) == len(features):
            return DataTable(inputs=rows.numbers(rows.columns), targets=None, features=(*features,))
        rows.require(features)
        return DataTable(inputs=rows.numbers(features), targets=None, features=(*features,))
    inputs = _inputs(path, _arrays(path))
    columns = int(np.prod(inputs.shape[1:]))
    if columns != len(features):
        raise BadInput(
            f"{path}: the network reads {len(features)} numbers of a sample, but {INPUTS} has "
            f"{columns}"
        )
    return DataTable(inputs=inputs, targets=None, features=(*features,))


class _CsvTable:
    """Rows of a CSV file. A first row in which no cell is a number is the header; without a header
    the columns are called 0, 1, and so on."""

    def __init__(self, path: Path):
        self.path = path
        content = read_content(path, MAX_BYTES, "CSV file", pipes=False)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadInput(f"{path}: is not a text in UTF-8: save the file in UTF-8") from None
        try:
            reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
        except csv.Error as error:
            raise BadInput(f"{path}: is not a CSV file: {error}") from None
        if not rows:
            raise BadInput(f"{path}: the file is empty: write a row for each sample")
        first = [cell.strip() for cell in rows[0][1]]
        self.has_header = all(real_number(cell) is None for cell in first)
        self.columns = first if self.has_header else [str(n) for n in range(len(first))]
        if len(set(self.columns)) < len(self.columns):
            twice = next(each for each in self.columns if self.columns.count(each) > 1)
            raise BadInput(f"{path}: two columns have the name {twice}: rename one of them")
        self._rows = rows[1:] if self.has_header else rows
        if not self._rows:
            raise BadInput(f"{path}: the file has no samples, only the names of columns")
        wrong = [
            f"{path}, line {line}: has {len(row)} values, but the file has {len(first)} columns"
            for line, row in self._rows
            if len(row) != len(first)
        ]
        if wrong:
            raise BadInput(*_some(wrong))

    def require(self, names: Sequence[str]) -> None:
        """BadInput unless the file has the columns of a network."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise BadInput(
                f"{self.path}: the file must have the columns {', '.join(names)} of the network, "
                f"but has the columns {', '.join(self.columns)}, without {', '.join(missing)}"
            )

    def chosen(self, names: Sequence[str] | None) -> list[str]:
        """Return the named columns, or the last column."""
        if names is None:
            return [self.columns[-1]]
        for name in names:
            if name not in self.columns:
                raise BadInput(
                    f"--target must name columns of {self.path}, {', '.join(self.columns)}, not "
                    f"{excerpt(name)}"
                )
        return list(names)

    def line(self, row: int) -> str:
        """Return the line of a row, in words."""
        return f"line {self._rows[row][0]}"

    def texts(self, column: str) -> list[str]:
        """Return a column as texts."""
        place = self.columns.index(column)
        return [row[place].strip() for _, row in self._rows]

    def numbers(self, columns: Sequence[str]) -> NDArray[np.float32]:
        """Return columns in float32. BadInput for every cell that is no finite number, in the order
        of the lines."""
        found = np.empty((len(self._rows), len(columns)))
        places = [self.columns.index(column) for column in columns]
        wrong: list[str] = []
        for row, (_, cells) in enumerate(self._rows):
            for place, column in enumerate(columns):
                text = cells[places[place]].strip()
                value = real_number(text)
                if value is None or not abs(value) <= LARGEST:
                    wrong.append(
                        f"{self.path}, {self.line(row)}, column {column}: must be a finite number, "
                        f"not {excerpt(text)}"
                    )
                else:
                    found[row, place] = value
        if wrong:
            raise BadInput(*_some(wrong))
        return found.astype(np.float32)


def _labelled(
    path: Path,
    texts: Sequence[str],
    classes: Sequence[str] | None,
    place: Callable[[int], str],
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a label for every text, and the classes: whole numbers in ascending order, other names
    in alphabetical order."""
    distinct = sorted(set(texts))
    if all(_WHOLE.fullmatch(text) for text in distinct):
        distinct.sort(key=int)  # equal numbers stay in the order of their texts
    known = tuple(classes or distinct)
    if len(known) > MAX_CLASSES:
        raise BadInput(
            f"{path}: at most {MAX_CLASSES} classes are possible, not {len(known)}: for numbers to "
            "learn, give --loss mse"
        )
    numbers = {name: number for number, name in enumerate(known)}
    wrong = [
        f"{path}, {place(row)}: the class must be one of {', '.join(known)}, not {excerpt(text)}"
        for row, text in enumerate(texts)
        if text not in numbers
    ]
    wrong += [
        f"{path}, {place(row)}: the class is empty" for row, text in enumerate(texts) if not text
    ]
    if wrong:
        raise BadInput(*_some(wrong))
    return np.array([numbers[text] for text in texts], np.int64), known


def _arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of an .npz file, or of the .npy files in a folder."""
    if path.is_dir():
        names = [each for each in (INPUTS, TARGETS, LABELS) if (path / f"{each}.npy").exists()]
        return {name: _npy(path / f"{name}.npy") for name in names}
    try:
        archive = Archive(path)
    except BadInput:
        if path.is_file() and path.suffix.lower() != ".npz":
            raise BadInput(f"{path}: must be a .csv file, an .npz file or a folder") from None
        raise
    names = [name for name in (INPUTS, TARGETS, LABELS) if name in archive.names]
    try:
        return {name: archive.read(name) for name in names}
    except Unreadable as reason:
        raise BadInput(f"{path}: an array cannot be read: {reason}") from None


def _npy(path: Path) -> NDArray[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path}: is not an array of numbers: {error}") from None


def _inputs(path: Path, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    if INPUTS not in arrays:
        raise BadInput(
            f"{path}: the array {INPUTS} (samples x features) is needed, but there is "
            f"{', '.join(arrays) or 'nothing'}"
        )
    inputs = arrays[INPUTS]
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise BadInput(f"{path}: {INPUTS} must be samples x features, not of shape {inputs.shape}")
    return _floats(path, INPUTS, inputs)


def _floats(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    """Return an array in float32. BadInput for anything but finite numbers, with the sample."""
    if values.dtype.kind not in "fiub":
        raise BadInput(f"{path}: {name} must be numbers, not {values.dtype}")
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, np.float32)
    wrong: list[list[int]] = np.argwhere(~np.isfinite(single)).tolist()
    if wrong:
        place: Any = tuple(wrong[0])
        raise BadInput(
            f"{path}: {name} must be finite numbers in the range of float32, but "
            f"{name}{list(place)} is {values[place]}"
        )
    return single


def _checked(
    path: Path,
    inputs: NDArray[np.float32],
    targets: NDArray[Any],
    features: Sequence[str],
    outputs: Sequence[str],
    classes: tuple[str, ...] | None,
) -> DataTable:
    if len(inputs) < FEWEST:
        raise BadInput(f"{path}: at least {FEWEST} samples are needed, but there are {len(inputs)}")
    if classes is not None and len(classes) < 2:
        raise BadInput(f"{path}: at least two classes are needed, but all are {''.join(classes)}")
    return DataTable(
        inputs=inputs,
        targets=targets,
        features=(*features,),
        outputs=(*outputs,),
        classes=classes,
    )


def _some(problems: Sequence[str]) -> list[str]:
    """Return the first problems, and the number of further problems."""
    more = len(problems) - SHOWN
    return [*problems[:SHOWN], *([f"and {more} more of this kind"] if more > 0 else [])]
