"""Log a training: a line of JSON for every step, and for every evaluation."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diastole.errors import BadInput
from diastole.files import atomic
from diastole_sim.program.run import ProgramRun
from diastole_sim.trainer.job import Keeper, Learnt


@dataclass(kw_only=True)
class TrainingLog:
    """Log in a file, a :class:`diastole_sim.trainer.job.Keeper` around another keeper.

    A line of a step has ``step``, ``loss`` and ``rate``. A line of an evaluation has ``steps``, the
    number of steps done, ``held_out_loss``, ``held_out_accuracy`` (null for numbers), and the
    counters of all steps so far. The lines of a stretch of steps are appended together, after the
    evaluation. A resumed training begins the file anew, with all steps; the counters of earlier
    evaluations are then absent.

    - ``path``: file to write.
    - ``rate``: learning rate by step.
    - ``inner``: keeper of the state, None without a file of the state.
    """

    path: Path
    rate: Callable[[int], float]
    inner: Keeper | None = None
    _logged: int = 0

    def begin(self, run: ProgramRun) -> Learnt:
        learnt = Learnt() if self.inner is None else self.inner.begin(run)
        lines = [*self._steps(run)]
        lines += [_evaluation(*each) for each in learnt.history.held_out]
        text = "".join(lines).encode()
        atomic.replace(self.path, lambda file: file.write(text))
        return learnt

    def keep(self, run: ProgramRun, learnt: Learnt) -> None:
        if self.inner is not None:
            self.inner.keep(run, learnt)
        lines = [*self._steps(run), _evaluation(*learnt.history.held_out[-1], **run.training)]
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}") from error

    def _steps(self, run: ProgramRun) -> Iterator[str]:
        """Yield the lines of the steps that have no line."""
        losses = run.losses().tolist()
        for step in range(self._logged, run.done):
            yield _line(step=step, loss=losses[step], rate=self.rate(step))
        self._logged = run.done


def _evaluation(steps: int, loss: float, accuracy: float, **counters: int) -> str:
    return _line(steps=steps, held_out_loss=loss, held_out_accuracy=accuracy, **counters)


def _line(**values: Any) -> str:
    """Return a line of JSON. A number that is not finite becomes null."""
    finite = {
        name: None if isinstance(value, float) and value - value != 0 else value
        for name, value in values.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"
