"""Write and read a sealed file: a safetensors file with one record as JSON, whose bytes follow from
its contents alone.

The record is the value of the only metadata key, :data:`KEY`. The record has a SHA-256 over all
tensors and all else in the record, and names the kind of the file.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.content import read_content
from diastole.files.outputs import check_output
from diastole_sim.reading import parse_json

KEY, FORMAT = "diastole", 1
"""Key of the record, and number of this form of the record."""
NETWORK, PROGRAM = "network", "program"
"""Kinds of sealed files."""
WRITERS = {NETWORK: "diastole train --save", PROGRAM: "diastole program build"}
"""Command that writes files of a kind."""
ENDING = ".safetensors"
MAX_BYTES = 1 << 34
Tensors = Mapping[str, NDArray[Any]]
_SEAL = ("format", "kind", "sha256")


@dataclass(frozen=True, kw_only=True)
class SealedFile:
    """Contents of a file of a ``kind``. ``record``: plain values by name. ``tensors``: arrays by
    name."""

    kind: str
    record: Mapping[str, Any]
    tensors: Tensors

    def write(self, path: Path) -> None:
        """Write the file, completely or not at all."""
        data = self._bytes()
        atomic.replace(path, lambda file: file.write(data))

    def _bytes(self) -> bytes:
        whole = {name: np.ascontiguousarray(each) for name, each in self.tensors.items()}
        record = {**self.record, "format": FORMAT, "kind": self.kind}
        record["sha256"] = _sha256(whole, record)
        return save(whole, {KEY: _json(record)})

    @classmethod
    def read(cls, path: Path, kind: str) -> "SealedFile":
        """Return the contents of a file. BadInput if the file is of another kind, or not exactly
        what :meth:`write` writes."""
        data = read_content(path, MAX_BYTES, f"{kind} that diastole wrote", pipes=False)
        try:
            tensors, record = load(data), _record(data)
        except (SafetensorError, ValueError, LookupError, TypeError, AttributeError):
            raise BadInput(
                f"{path}: is not a {kind} that {WRITERS[kind]} wrote, or was cut off"
            ) from None
        if record.get("format") != FORMAT:
            raise BadInput(
                f"{path}: is a file of form {record.get('format')}, but this version reads form "
                f"{FORMAT}"
            )
        if record.get("kind") != kind:
            raise BadInput(
                f"{path}: must be a {kind}, which {WRITERS[kind]} writes, not a "
                f"{record.get('kind')}"
            )
        rest = {name: each for name, each in record.items() if name not in _SEAL}
        found = cls(kind=kind, record=rest, tensors=tensors)
        if found._bytes() != data:
            raise BadInput(f"{path}: the file was altered after it was written")
        return found


def check_sealed(option: str, path: Path) -> None:
    """Raise BadInput unless the name ends in :data:`ENDING`, and names a file that can be
    written."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{option} must name a file, not {path}")
    check_output(option, path, (ENDING,))


def part_of(tensors: Tensors, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the tensors whose names begin with a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


def prefixed(prefix: str, tensors: Tensors) -> dict[str, NDArray[Any]]:
    """Return the tensors with the prefix in front of every name."""
    return {f"{prefix}{name}": each for name, each in tensors.items()}


def _record(data: bytes) -> dict[str, Any]:
    """Return the record. The header of a safetensors file is JSON after its length."""
    length = int.from_bytes(data[:8], "little")
    header = parse_json(data[8 : 8 + length])
    return dict(parse_json(header["__metadata__"][KEY]))


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _sha256(tensors: Tensors, record: Mapping[str, Any]) -> str:
    """Return the hash of all tensors in the order of their names, and of the record."""
    digest = hashlib.sha256(_json(record).encode())
    for name in sorted(tensors):
        each = tensors[name]
        digest.update(f"{name} {each.dtype} {each.shape}".encode())
        digest.update(each.tobytes())
    return digest.hexdigest()
