"""Log a training for TensorBoard: a curve for every value, over the steps."""

import os
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from diastole.errors import BadInput
from diastole.learning.log import Record

CURVES = {
    "loss": "loss/step",
    "held_out_loss": "loss/held-out",
    "held_out_accuracy": "accuracy/held-out",
    "rate": "rate",
}
"""Curve of a value. All other values are counters."""


class TensorBoard:
    """Journal in a folder, a :class:`diastole.learning.log.Journal`. A counter has the curve
    ``counters/NAME``.

    Every training writes a further file into the folder. A resumed training writes all steps, and
    tells TensorBoard to forget the files before.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._writer: Any = None

    def begin(self, records: Sequence[Record]) -> None:
        """Make the folder and the file. BadInput if the folder takes no file."""
        files: Any = import_module("tensorboardX.event_file_writer")  # a package without types
        with self._failures():
            self.folder.mkdir(exist_ok=True)
            prefix = str(self.folder / "events")
            self._writer = files.EventsWriter(prefix, f".{os.getpid()}")
        weakref.finalize(self, self._writer.close)
        events = _events()
        start = events.SessionLog(status=events.SessionLog.START)
        self._write(events.Event(step=0, session_log=start))
        self.append(records)

    def append(self, records: Sequence[Record]) -> None:
        """Write the records. BadInput if the file cannot grow."""
        events, summaries = _events(), import_module("tensorboardX.proto.summary_pb2")
        for record in records:
            values = dict(record)
            step = values.pop("step" if "step" in values else "steps")
            every = [
                summaries.Summary.Value(
                    tag=CURVES.get(name, f"counters/{name}"), simple_value=value
                )
                for name, value in values.items()
                if value is not None
            ]
            self._write(events.Event(step=step, summary=summaries.Summary(value=every)))
        with self._failures():
            self._writer.flush()

    def _write(self, event: Any) -> None:
        event.wall_time = time.time()
        with self._failures():
            self._writer.write_event(event)

    @contextmanager
    def _failures(self) -> Generator[None]:
        """Report a failure of the file system as BadInput."""
        try:
            yield
        except OSError as error:
            raise BadInput(f"{self.folder}: {error.strerror}") from error


def _events() -> Any:
    return import_module("tensorboardX.proto.event_pb2")
