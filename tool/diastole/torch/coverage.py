"""Report the part of a model that a device computes: the layers, and the share of the
multiplications."""

# pyright: reportUnknownMemberType=false

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from diastole.console import note
from diastole.report.format_table import align
from diastole.torch.device_layers import DeviceLayer
from diastole.torch.multiplications import Counting, Tally, count_pass, is_counting
from diastole.torch.select_modules import KINDS, MAX_LISTED, few_names, named_module
from diastole_sim.device.interface import DeviceProtocol

PRODUCTS = (
    nn.Linear,
    nn.modules.conv._ConvNd,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.MultiheadAttention,
    nn.Bilinear,
)
"""Torch modules that multiply matrices."""
TABLES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)
"""Modules that multiply no matrices, although their weights may have two axes."""
COUNTS = "counts the multiplications"
FIRST_PASS = "_diastole_first_pass"
"""Attribute of a converted model that holds the model's :class:`FirstPass`."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Report on the part of a model that devices compute. As text: a sentence, and a table of the
    layers.

    ``layers``: numbers of the swapped layers by name. ``left``: reasons why the remaining modules
    that multiply matrices are not swapped, by name. ``kinds``: types of the modules by name.
    ``multiplications``: multiplications of a forward pass by name; None if nothing was counted yet.
    A name outside ``layers`` and ``left`` belongs to a module that multiplies by itself, as
    attention does. ``share``: part of the multiplications that devices do, 0 to 1, or None.
    ``unknown``: called functions, of packages or kinds unknown to the count, whose multiplications
    could not be counted. ``devices``: devices of Diastole that the layers have.
    """

    layers: Mapping[str, int]
    left: Mapping[str, str]
    kinds: Mapping[str, str]
    multiplications: Mapping[str, int] | None
    share: float | None
    unknown: tuple[str, ...]
    devices: tuple[DeviceProtocol, ...]

    @property
    def sentence(self) -> str:
        """Number of swapped layers, their share of the multiplications, and the remaining
        layers."""
        return self.sentence_or("diastole.torch.report(model, inputs)")

    def sentence_or(self, counter: str) -> str:
        """Return the sentence. If nothing was counted yet, the sentence names ``counter`` as the
        way to count."""
        count = f"swapped {len(self.layers)} of {len(self.layers) + len(self.left)} layers"
        if self.share is not None:
            count += f", {share_in_percent(self.share)} of the multiplications"
        words = [count, f"left: {self._left() or 'nothing'}"]
        if self.unknown:
            words.append(f"not counted: {few_names(self.unknown)}")
        if self.multiplications is None:
            words.append(f"{counter} {COUNTS}")
        return "; ".join(words)

    def __str__(self) -> str:
        rows = [
            [named_module(name), self._kind(name), self._part(name), f"swapped, number {number}"]
            for name, number in self.layers.items()
        ]
        for name in (*self.left, *self._others()):
            why = self.left.get(name, "multiplies by itself, in no layer")
            rows.append([named_module(name), self._kind(name), self._part(name), f"left: {why}"])
        heading = ["layer", "type", "share", "state"]
        return "\n".join([self.sentence, *align([heading, *rows], left=4)])

    def _others(self) -> list[str]:
        """Return the names of modules that multiply although the modules are no layers."""
        counted = self.multiplications or {}
        return [name for name in counted if name not in self.layers and name not in self.left]

    def _left(self) -> str:
        names = [*self.left, *self._others()]
        if self.multiplications is not None:
            counted = self.multiplications
            names.sort(key=lambda name: -counted.get(name, 0))
        words = [f"{named_module(name)} ({self._words(name)})" for name in names[:MAX_LISTED]]
        if len(names) > MAX_LISTED:
            words.append(
                f"and {len(names) - MAX_LISTED} more, which diastole.torch.report(model) names"
            )
        return ", ".join(words)

    def _words(self, name: str) -> str:
        part = self._part(name)
        return f"{self._kind(name)}, {part}" if part else self._kind(name)

    def _kind(self, name: str) -> str:
        return self.kinds.get(name, "no longer there")

    def _part(self, name: str) -> str:
        if not self.multiplications:
            return ""
        total = sum(self.multiplications.values())
        return share_in_percent(self.multiplications.get(name, 0) / total) if total else ""


def share_in_percent(part: float) -> str:
    """Return a part in percent: only nothing is 0 %, and only all is 100 %."""
    if 0 < part < 0.001:
        return "< 0.1 %"
    if 0.999 < part < 1:
        return "> 99.9 %"
    return f"{100 * part:.1f}".removesuffix(".0") + " %"


def report(model: nn.Module, *args: Any, **kwargs: Any) -> Report:
    """Report the layers of a model that a device computes, and their share of the multiplications.

    With inputs, a run of ``model(*args, **kwargs)`` is counted once, without gradients. Devices
    compute nothing meanwhile, and buffers and torch's random numbers stay unchanged. Without
    inputs, the report uses the count of the first forward pass after
    :func:`diastole.torch.convert`, or the count of the ``example`` of ``convert``.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if args or kwargs:
        return report_of(model, count_pass(model, args, kwargs))
    first = getattr(model, FIRST_PASS, None)
    return report_of(model, first.tally if isinstance(first, FirstPass) else None)


def report_of(model: nn.Module, tally: Tally | None) -> Report:
    """Return a report with the multiplications of a tally."""
    modules = dict(model.named_modules())
    swapped = {name: each for name, each in modules.items() if isinstance(each, DeviceLayer)}
    if tally is not None and tally.is_empty:
        tally = None
    left = _left(modules, tally)
    return Report(
        layers={name: each.number for name, each in swapped.items()},
        left=left,
        kinds={name: type(each).__name__ for name, each in modules.items()},
        multiplications=None if tally is None else tally.by_module,
        share=None if tally is None or not tally.total else tally.share(swapped),
        unknown=() if tally is None else tuple(sorted(tally.unknown)),
        devices=tuple({id(each.device): each.device for each in swapped.values()}.values()),
    )


def _left(modules: Mapping[str, nn.Module], tally: Tally | None) -> dict[str, str]:
    """Return the reasons why modules that multiply matrices are not swapped, by name."""
    reasons: dict[str, str] = {}
    inner: set[int] = set()
    for name, module in modules.items():
        if id(module) in inner or isinstance(module, DeviceLayer):
            continue
        if isinstance(module, nn.MultiheadAttention) or parametrize.is_parametrized(module):
            inner |= {id(each) for each in module.modules()}
        counted = tally is not None and tally.by_module.get(name, 0) > 0
        if isinstance(module, PRODUCTS) or (_has_matrix(module) and (counted or tally is None)):
            reasons[name] = _why(module)
    return reasons


def _has_matrix(module: nn.Module) -> bool:
    if isinstance(module, TABLES):
        return False
    weights = module.parameters(recurse=False)
    return any(nn.parameter.is_lazy(each) or each.ndim > 1 for each in weights)


def _why(module: nn.Module) -> str:
    if type(module) in KINDS:
        return "convert has not chosen it"
    if isinstance(module, nn.MultiheadAttention):
        return "it reads the weights of its layers itself"
    if parametrize.is_parametrized(module):
        return "it is parametrized; torch.nn.utils.parametrize.remove_parametrizations mends that"
    if isinstance(module, nn.modules.lazy.LazyModuleMixin):
        return "it has no shape before its first forward pass; convert after it"
    if isinstance(module, tuple(KINDS)):
        return "a type derived from nn.Linear or nn.Conv2d may compute something else"
    return "only nn.Linear and nn.Conv2d are swapped"


class FirstPass:
    """Count the first forward pass of a converted model, and print the sentence of the report.

    Two hooks of the model do the counting. The hooks are removed after the counted pass. ``tally``:
    counts of the pass, None before.
    """

    def __init__(self, model: nn.Module, tally: Tally | None = None):
        self.tally = None if tally is None or tally.is_empty else tally
        self._counting: Counting | None = None
        self._handles: list[Any] = []
        if self.tally is None:
            self._handles = [
                model.register_forward_pre_hook(self._begin),
                model.register_forward_hook(self._end, always_call=True),
            ]

    def stop(self) -> None:
        """Stop counting for good."""
        self._leave()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_counting": None}

    def _begin(self, module: nn.Module, args: Any) -> None:
        self._leave()  # ends the count of an interrupted pass
        if not torch.compiler.is_compiling() and not is_counting():
            self._counting = Counting(module, running=True)
            self._counting.__enter__()

    def _end(self, module: nn.Module, args: Any, result: Any) -> None:
        counting = self._leave()
        if counting is None:
            return
        failed = result is None and sys.exc_info()[0] is not None
        if not counting.tally.is_empty and not failed:
            self.tally = counting.tally
            self.stop()
            note(report(module).sentence)

    def _leave(self) -> Counting | None:
        """End the current count, and return the count."""
        counting, self._counting = self._counting, None
        if counting is not None:
            counting.__exit__(None, None, None)
        return counting
