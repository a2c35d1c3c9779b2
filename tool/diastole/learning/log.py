"""Log a training: a record for every step, and for every evaluation."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from diastole.errors import BadInput
from diastole.files import atomic
from diastole_sim.program.run import ProgramRun
from diastole_sim.trainer.job import Keeper, Learnt

Record = dict[str, Any]
"""Values of a step, or of an evaluation, by name. A number that is not finite is None."""


class Journal(Protocol):
    """Place for the records of a training."""

    def begin(self, records: Sequence[Record]) -> None:
        """Begin anew, with the records of all steps and evaluations of a resumed training."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Add the records of a stretch of steps, and of the evaluation after the stretch."""
        ...


@dataclass(kw_only=True)
class TrainingLog:
    """Log of a training, a :class:`diastole_sim.trainer.job.Keeper` around another keeper.

    A record of a step has ``step``, ``loss`` and ``rate``. A record of an evaluation has ``steps``,
    the number of steps done, ``held_out_loss``, ``held_out_accuracy`` (None for numbers), and the
    counters of all steps so far. The records of a stretch of steps are appended together, after the
    evaluation. A resumed training begins anew, with all steps; the counters of earlier evaluations
    are then absent.

    - ``journals``: places for the records.
    - ``rate``: learning rate by step.
    - ``inner``: keeper of the state, None without a file of the state.
    """

    journals: Sequence[Journal]
    rate: Callable[[int], float]
    inner: Keeper | None = None
    _logged: int = 0

    def begin(self, run: ProgramRun) -> Learnt:
        learnt = Learnt() if self.inner is None else self.inner.begin(run)
        records = self._steps(run) + [_evaluation(*each) for each in learnt.history.held_out]
        records.sort(key=_place)
        for journal in self.journals:
            journal.begin(records)
        return learnt

    def keep(self, run: ProgramRun, learnt: Learnt) -> None:
        if self.inner is not None:
            self.inner.keep(run, learnt)
        records = [*self._steps(run), _evaluation(*learnt.history.held_out[-1], **run.training)]
        for journal in self.journals:
            journal.append(records)

    def _steps(self, run: ProgramRun) -> list[Record]:
        """Return the records of the steps that have no record."""
        losses = run.losses().tolist()
        steps = range(self._logged, run.done)
        self._logged = run.done
        return [_finite(step=step, loss=losses[step], rate=self.rate(step)) for step in steps]


def _evaluation(steps: int, loss: float, accuracy: float, **counters: int) -> Record:
    return _finite(steps=steps, held_out_loss=loss, held_out_accuracy=accuracy, **counters)


def _place(record: Record) -> float:
    """Return the place of a record in time. An evaluation comes after the last of its steps."""
    return record["step"] if "step" in record else record["steps"] - 0.5


def _finite(**values: Any) -> Record:
    """Return the values, with None for a number that is not finite."""
    return {
        name: None if isinstance(value, float) and value - value != 0 else value
        for name, value in values.items()
    }


@dataclass(frozen=True)
class JsonLines:
    """Journal in a file with a line of JSON for every record."""

    path: Path

    def begin(self, records: Sequence[Record]) -> None:
        text = "".join(map(_line, records)).encode()
        atomic.replace(self.path, lambda file: file.write(text))

    def append(self, records: Sequence[Record]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(map(_line, records))
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}") from error


def _line(record: Record) -> str:
    return json.dumps(record, allow_nan=False) + "\n"
