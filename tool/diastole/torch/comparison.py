"""Train a user's own model in several formats, beside float32."""

import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from diastole.devices import Formats
from diastole.report.format_table import align
from diastole.torch.coverage import Report, report_of
from diastole.torch.device_layers import DeviceLayer
from diastole.torch.multiplications import Counting, Tally
from diastole.torch.select_modules import few_names
from diastole.torch.swaps import place
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.require import require_int

FLOAT = "float32"
"""Name of a model without parameters."""
LAST = 10
"""Number of last steps in the final mean of the losses."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Result of a comparison. ``losses``: losses of all steps by name of the format. ``models``:
    models after the last step by name of the format.

    The first name is the name of the unconverted model: the type of the parameters, usually
    ``float32``. ``report``: layers that have the formats, with the multiplications of the forward
    passes in the first step. As text: a table, and the sentence of the report.
    """

    losses: dict[str, list[float]]
    models: dict[str, nn.Module]
    report: Report

    def last(self, name: str) -> float:
        """Return the mean loss of the last ten steps."""
        losses = self.losses[name][-LAST:]
        return sum(losses) / len(losses)

    @property
    def baseline(self) -> str:
        """Name of the unconverted model."""
        return next(iter(self.losses))

    def __str__(self) -> str:
        heading = ["format", "first loss", f"mean of last {LAST}", f"over {self.baseline}"]
        rows = [
            [name, f"{losses[0]:.5g}", f"{self.last(name):.5g}", self._over(name)]
            for name, losses in self.losses.items()
        ]
        return "\n".join([*align([heading, *rows], left=1), self.report.sentence])

    def _over(self, name: str) -> str:
        if name == self.baseline or not self.last(self.baseline):
            return ""
        return f"{self.last(name) / self.last(self.baseline) - 1:+.2%}"


def compare(
    model: nn.Module,
    step: Callable[[nn.Module, int], Any],
    formats: "Iterable[Formats] | Mapping[str, Formats]",
    *,
    steps: int = 100,
    optimizer: Callable[[Any], Any] | None = None,
    names: Any = "*",
    device: Any = "cpu",
    seed: int = 0,
) -> Comparison:
    """Train a copy of ``model`` unchanged and a copy in each of ``formats``, from equal weights.

    ``step(model, number)``: user's function for step 0 to ``steps`` - 1, which returns the loss of
    the step. ``optimizer``: function from parameters to an optimiser
    (``lambda p: SGD(p, lr=0.1)``). With an ``optimizer``, :func:`compare` computes gradients and
    updates. Without an ``optimizer``, ``step`` does all the work: evaluation, or a training of its
    own. ``formats``: names of formats, or formats by a name that is shown. ``names``, ``device``,
    ``seed``: arguments of :func:`diastole.torch.convert`. Before every copy, the generator of torch
    is seeded with ``seed``; after the last copy, the generator is restored. Layers that are not
    swapped compute in every copy as in ``model``. The report of the result lists these layers and
    their share of the multiplications. Autocast within ``step`` applies to every copy, the first
    copy included.

    ``model`` stays unchanged. ValueError for a converted model, for no format, for a format with
    the name of the model's type (``float32``), and for everything that ``convert`` refuses. Errors
    of ``step`` are raised with a note of the format.
    """
    require_int("steps", steps, 1, MAX_STEPS)
    swapped = [name for name, each in model.named_modules() if isinstance(each, DeviceLayer)]
    if swapped:
        raise ValueError(
            f"model must be one that is not converted; swapped are {few_names(swapped)}"
        )
    baseline = _types_of(model)
    formats_by_name = _by_name(formats, baseline)
    models = {baseline: copy.deepcopy(model)}
    for name, each in formats_by_name.items():
        twin = copy.deepcopy(model)
        models[name] = place(twin, formats=each, names=names, device=device, seed=seed)
    measured = next(iter(formats_by_name))
    tally = Tally()
    losses: dict[str, list[float]] = {}
    with torch.random.fork_rng():
        for name, each in models.items():
            torch.manual_seed(seed)
            try:
                counted = tally if name == measured else None
                losses[name] = _losses(each, step, steps, optimizer, counted)
            except Exception as error:
                error.add_note(f"in the format {name}")
                raise
    return Comparison(losses=losses, models=models, report=report_of(models[measured], tally))


def _losses(
    model: nn.Module,
    step: Callable[[nn.Module, int], Any],
    steps: int,
    optimizer: Callable[[Any], Any] | None,
    tally: Tally | None,
) -> list[float]:
    """Return the loss of every step. Count the multiplications of the first step in ``tally``."""
    losses: list[float] = []
    updates = None if optimizer is None else optimizer(model.parameters())
    for number in range(steps):
        counts = Counting(model, tally) if tally is not None and number == 0 else nullcontext()
        with counts:
            loss = step(model, number)
        if updates is not None:
            updates.zero_grad()
            loss.backward()
            updates.step()
        losses.append(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))
    return losses


def _types_of(model: nn.Module) -> str:
    """Return the types of the parameters as a name."""
    types = {str(each.dtype).removeprefix("torch.") for each in model.parameters()}
    return " and ".join(sorted(types)) or FLOAT


def _by_name(
    formats: "Iterable[Formats] | Mapping[str, Formats]", baseline: str
) -> dict[str, Formats]:
    if isinstance(formats, Mapping):
        formats_by_name = dict(cast(Mapping[str, Formats], formats))
    else:
        listed = [formats] if isinstance(formats, str) else list(formats)
        formats_by_name: dict[str, Formats] = {
            each if isinstance(each, str) else str(each): each for each in listed
        }
    if not formats_by_name or baseline in formats_by_name:
        raise ValueError(f"formats must name one or more, beside {baseline}, not {formats!r}")
    return formats_by_name
