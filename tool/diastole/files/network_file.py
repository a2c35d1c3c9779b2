"""Write and read a trained network: a safetensors file with one record as JSON.

The tensors are ``parameters.NAME``, float32 with the shapes of the graph, and ``state.AREA``, the
bytes of an area that holds the state of the training. The record is the value of the only metadata
key, :data:`KEY`. The record has a SHA-256 over all tensors and all else in the record.
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
ENDING = ".safetensors"
MAX_BYTES = 1 << 34
PARAMETERS, STATE = "parameters.", "state."
Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class NetworkFile:
    """Contents of a file.

    - ``record``: plain values by name.
    - ``parameters``: parameters by name, with shapes as in the graph.
    - ``state``: state of the training by name of an area.
    """

    record: Mapping[str, Any]
    parameters: Tensors
    state: Tensors

    def write(self, path: Path) -> None:
        """Write the file, completely or not at all."""
        data = self._bytes()
        atomic.replace(path, lambda file: file.write(data))

    def _bytes(self) -> bytes:
        tensors = {f"{PARAMETERS}{name}": each for name, each in self.parameters.items()}
        tensors |= {f"{STATE}{name}": each for name, each in self.state.items()}
        whole = {name: np.ascontiguousarray(each) for name, each in tensors.items()}
        record = {**self.record, "format": FORMAT}
        record["sha256"] = _sha256(whole, record)
        return save(whole, {KEY: _json(record)})

    @classmethod
    def read(cls, path: Path) -> "NetworkFile":
        """Return the contents of a file. BadInput if the file is no trained network, or not exactly
        what :meth:`write` writes."""
        data = read_content(path, MAX_BYTES, "network that diastole saved", pipes=False)
        try:
            tensors, record = load(data), _record(data)
        except (SafetensorError, ValueError, LookupError, TypeError, AttributeError):
            raise BadInput(f"{path}: is not a network that diastole saved") from None
        if record.get("format") != FORMAT:
            raise BadInput(
                f"{path}: is a file of form {record.get('format')}, but this version reads form "
                f"{FORMAT}"
            )
        found = cls(
            record={
                name: each for name, each in record.items() if name not in ("sha256", "format")
            },
            parameters=_named(tensors, PARAMETERS),
            state=_named(tensors, STATE),
        )
        if found._bytes() != data:
            raise BadInput(f"{path}: the file was altered or cut off after it was saved")
        return found


def check_network(option: str, path: Path) -> None:
    """Raise BadInput unless the name ends in :data:`ENDING`, and names a file that can be
    written."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{option} must name a file, not {path}")
    check_output(option, path, (ENDING,))


def _named(tensors: Tensors, prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


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
