"""Define the optimisers of a training: learning rates, constants and chains."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from diastole_sim.program.chain import Chain
from diastole_sim.program.chains import optimisers
from diastole_sim.program.chains.updates import Options
from diastole_sim.program.schedules import Rate, RateSchedule


def falling(rate: float, steps: int) -> Rate:
    """Return a rate that falls linearly from ``rate`` in step 0 towards 0 in step ``steps``."""
    return RateSchedule().rate(rate, steps)


class Optimiser(Protocol):
    """Interface of an optimiser: three methods. Further members are free."""

    def chain(self, options: Options) -> Chain:
        """Return the chain of the update."""
        ...

    def constants(self) -> Mapping[str, float]:
        """Return the constants of the chain that do not change, by name. Unused names are
        allowed."""
        ...

    def of_step(self, step: int) -> Mapping[str, float]:
        """Return the constants that change, in step 0, 1, .. . Every step has the same names."""
        ...


def _with_decay(options: Options, decay: float) -> Options:
    """Return the options, with K[decay] w added to the gradient if ``decay`` is not 0."""
    return replace(options, decay=decay != 0)


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Optimiser equal to torch.optim.SGD with dampening 0."""

    rate: Rate
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def chain(self, options: Options) -> Chain:
        options = _with_decay(options, self.weight_decay)
        return optimisers.sgd(options, momentum=self.momentum != 0, nesterov=self.nesterov)

    def constants(self) -> Mapping[str, float]:
        return {"momentum": self.momentum, "decay": self.weight_decay}

    def of_step(self, step: int) -> Mapping[str, float]:
        return {"-lr_t": -self.rate(step)}


@dataclass(frozen=True, kw_only=True)
class Lars:
    """Optimiser equal to torch.optim.SGD with dampening 0, for the gradient of a weight times the
    trust ratio ``trust`` norm(w) / (norm(g) + ``weight_decay`` norm(w)). The ratio of a bias is 1,
    and so is a ratio with a norm of 0. Source: You et al., arXiv:1708.03888."""

    rate: Rate
    momentum: float = 0.9
    weight_decay: float = 0.0
    trust: float = 0.001

    def chain(self, options: Options) -> Chain:
        options = _with_decay(options, self.weight_decay)
        return optimisers.lars(options, momentum=self.momentum != 0)

    def constants(self) -> Mapping[str, float]:
        return {"momentum": self.momentum, "decay": self.weight_decay}

    def of_step(self, step: int) -> Mapping[str, float]:
        return {"-lr_t": -self.rate(step)}


@dataclass(frozen=True, kw_only=True)
class RmsProp:
    """Optimiser equal to torch.optim.RMSprop, not centred."""

    rate: Rate
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 0.0

    def chain(self, options: Options) -> Chain:
        options = _with_decay(options, self.weight_decay)
        return optimisers.rmsprop(options, momentum=self.momentum != 0)

    def constants(self) -> Mapping[str, float]:
        return {
            "alpha": self.alpha,
            "1-alpha": 1 - self.alpha,
            "eps": self.eps,
            "momentum": self.momentum,
            "decay": self.weight_decay,
        }

    def of_step(self, step: int) -> Mapping[str, float]:
        return {"-lr_t": -self.rate(step)}


@dataclass(frozen=True, kw_only=True)
class Adagrad:
    """Optimiser equal to torch.optim.Adagrad without decay of the learning rate."""

    rate: Rate
    eps: float = 1e-10
    weight_decay: float = 0.0

    def chain(self, options: Options) -> Chain:
        return optimisers.adagrad(_with_decay(options, self.weight_decay))

    def constants(self) -> Mapping[str, float]:
        return {"eps": self.eps, "decay": self.weight_decay}

    def of_step(self, step: int) -> Mapping[str, float]:
        return {"-lr_t": -self.rate(step)}


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Optimiser equal to torch.optim.Adam. ``decoupled``: equal to torch.optim.AdamW, with
    ``weight_decay`` apart from the gradient."""

    rate: Rate
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def chain(self, options: Options) -> Chain:
        if self.decoupled:
            return optimisers.adamw(options)
        return optimisers.adam(_with_decay(options, self.weight_decay))

    def constants(self) -> Mapping[str, float]:
        first, second = self.betas
        return {
            "b1": first,
            "1-b1": 1 - first,
            "b2": second,
            "1-b2": 1 - second,
            "eps": self.eps,
            "decay": self.weight_decay,
        }

    def of_step(self, step: int) -> Mapping[str, float]:
        rate = self.rate(step)
        first, second = (1 - _power(beta, step + 1) for beta in self.betas)
        numbers = {
            "1/sqrt(1-b2^t)": 1 / float(np.sqrt(np.float64(second))),
            "-lr_t/(1-b1^t)": -rate / first,
        }
        return numbers | ({"1-lr_t*decay": 1 - rate * self.weight_decay} if self.decoupled else {})


_POWERS: dict[float, list[float]] = {}
"""Computed powers by base, from exponent 0 on."""


def _power(base: float, exponent: int) -> float:
    """Return a power, computed by one product after another in float64: the bits are equal on every
    computer."""
    powers = _POWERS.setdefault(base, [1.0])
    while len(powers) <= exponent:
        powers.append(powers[-1] * base)
    return powers[exponent]
