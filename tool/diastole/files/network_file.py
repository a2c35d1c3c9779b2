"""Write and read a trained network: a sealed file with parameters and the state of the training.

The tensors are ``parameters.NAME``, float32 with the shapes of the graph, and ``state.AREA``, the
bytes of an area that holds the state of the training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diastole.files.sealed_file import NETWORK, SealedFile, Tensors, part_of, prefixed

PARAMETERS, STATE = "parameters.", "state."


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
        tensors = prefixed(PARAMETERS, self.parameters) | prefixed(STATE, self.state)
        SealedFile(kind=NETWORK, record=self.record, tensors=tensors).write(path)

    @classmethod
    def read(cls, path: Path) -> "NetworkFile":
        """Return the contents of a file. BadInput if the file is no trained network, or not exactly
        what :meth:`write` writes."""
        found = SealedFile.read(path, NETWORK)
        return cls(
            record=found.record,
            parameters=part_of(found.tensors, PARAMETERS),
            state=part_of(found.tensors, STATE),
        )
