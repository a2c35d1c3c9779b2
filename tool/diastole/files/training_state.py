"""Keep the state of a training in a file, from which an equal command continues."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.archive import Archive, Unreadable
from diastole.files.outputs import check_output
from diastole_sim.reading import parse_json
from diastole_sim.train.state import TrainingState

RECORD = "record"
"""Array with the remaining state, as JSON."""


class StateFile:
    """State of one training in ``path``, an .npz; a :class:`diastole_sim.train.state.StateKeeper`.

    ``training`` identifies the training, plain values by name. :meth:`load` raises BadInput if the
    file belongs to another training, or is no state. ``steps`` is the number of steps of the
    present state, None without a state.
    """

    def __init__(self, path: Path, training: Mapping[str, Any]):
        self.path, self.training = path, dict(training)
        self.steps: int | None = None
        check_output("--state", path, (".npz",))

    def load(self) -> TrainingState | None:
        if not self.path.exists():
            return None
        archive = Archive(self.path)
        try:
            arrays = {name: archive.read(name) for name in archive.names}
            record = parse_json(arrays.pop(RECORD).tobytes())
            stored, state = record["training"], TrainingState.read(record["state"], arrays)
        except (Unreadable, ValueError, LookupError, TypeError) as error:
            raise BadInput(
                f"{self.path}: is not the state of a training; give another file"
            ) from error
        for name, value in self.training.items():
            if stored.get(name) != value:
                raise BadInput(
                    f"{self.path}: is the state of another training, in which {name} is "
                    f"{stored.get(name)}, not {value}: give the options of that training, or "
                    "another file"
                )
        self.steps = state.steps
        return state

    def keep(self, state: TrainingState) -> None:
        record = json.dumps({"training": self.training, "state": state.record()})
        text = np.frombuffer(record.encode(), np.uint8)
        atomic.replace(
            self.path,
            lambda file: np.savez(file, allow_pickle=False, **{RECORD: text}, **state.arrays),
        )
        self.steps = state.steps
