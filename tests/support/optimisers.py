"""Optimisers in plain numpy float64, and the constants that their chains ask for in a step."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Setting:
    """``make``: the function that gives the chain, with ``options``; numbers as torch.optim has
    them. ``torch``: the class there and its arguments."""

    make: str
    torch: str
    rate: float = 0.05
    decay: float = 0.0
    options: dict = field(default_factory=dict)
    momentum: float = 0.0
    alpha: float = 0.9
    betas: tuple = (0.8, 0.95)
    eps: float = 1e-6

    @property
    def decay_in_gradient(self):
        return bool(self.decay) and self.make != "adamw"

    def torch_arguments(self):
        """Of torch.optim's class."""
        own = {
            "SGD": {"momentum": self.momentum, "nesterov": bool(self.options.get("nesterov"))},
            "RMSprop": {"alpha": self.alpha, "eps": self.eps, "momentum": self.momentum},
            "Adam": {"betas": self.betas, "eps": self.eps},
            "AdamW": {"betas": self.betas, "eps": self.eps},
            "Adagrad": {"eps": self.eps},
        }[self.torch]
        return own | {"lr": self.rate, "weight_decay": self.decay}


SETTINGS = {
    "sgd": Setting(make="sgd", torch="SGD", options={"momentum": False}),
    "momentum": Setting(make="sgd", torch="SGD", momentum=0.8),
    "nesterov": Setting(
        make="sgd", torch="SGD", momentum=0.8, decay=0.1, options={"nesterov": True}
    ),
    "decay": Setting(make="sgd", torch="SGD", momentum=0.9, decay=0.2),
    "rmsprop": Setting(make="rmsprop", torch="RMSprop"),
    "rmsprop_momentum": Setting(
        make="rmsprop", torch="RMSprop", momentum=0.7, decay=0.1, options={"momentum": True}
    ),
    "adam": Setting(make="adam", torch="Adam"),
    "adam_decay": Setting(make="adam", torch="Adam", decay=0.1),
    "adamw": Setting(make="adamw", torch="AdamW", decay=0.3),
    "adagrad": Setting(make="adagrad", torch="Adagrad"),
    "adagrad_decay": Setting(make="adagrad", torch="Adagrad", decay=0.1, eps=1e-3),
}


def constants_of_step(setting, step):
    """By name, in step 0, 1, .. ."""
    first, second = setting.betas
    t = step + 1
    return {
        "decay": setting.decay,
        "momentum": setting.momentum,
        "-lr_t": -setting.rate,
        "alpha": setting.alpha,
        "1-alpha": 1 - setting.alpha,
        "eps": setting.eps,
        "b1": first,
        "1-b1": 1 - first,
        "b2": second,
        "1-b2": 1 - second,
        "1/sqrt(1-b2^t)": (1 - second**t) ** -0.5,
        "-lr_t/(1-b1^t)": -setting.rate / (1 - first**t),
        "1-lr_t*decay": 1 - setting.rate * setting.decay,
    }


def steps_of(setting, w, gradients):
    """The weights after every step."""
    updater, found = Updater(setting), []
    for g in gradients:
        w = updater.update(w, g)
        found.append(w)
    return found


class Updater:
    """The optimiser of one tensor, step after step."""

    def __init__(self, setting):
        self.setting, self.done = setting, 0
        self.first = self.second = 0.0  # what is kept: v; or v and u; or m and v

    def update(self, w, g):
        """The weights after one more step."""
        others = {"SGD": self._sgd, "RMSprop": self._rmsprop, "Adagrad": self._adagrad}
        run = others.get(self.setting.torch, self._adam)
        self.done += 1
        return run(w, g)

    def _sgd(self, w, g):
        setting = self.setting
        g = g + setting.decay * w
        self.first = setting.momentum * self.first + g
        moved = g + setting.momentum * self.first if setting.options.get("nesterov") else self.first
        return w - setting.rate * moved

    def _rmsprop(self, w, g):
        setting = self.setting
        g = g + setting.decay * w
        self.first = setting.alpha * self.first + (1 - setting.alpha) * g * g
        self.second = setting.momentum * self.second + g / (np.sqrt(self.first) + setting.eps)
        return w - setting.rate * self.second

    def _adagrad(self, w, g):
        g = g + self.setting.decay * w
        self.first = self.first + g * g
        return w - self.setting.rate * g / (np.sqrt(self.first) + self.setting.eps)

    def _adam(self, w, g):
        setting, (b1, b2) = self.setting, self.setting.betas
        if setting.torch == "Adam":
            g = g + setting.decay * w
        else:
            w = w * (1 - setting.rate * setting.decay)
        self.first = b1 * self.first + (1 - b1) * g
        self.second = b2 * self.second + (1 - b2) * g * g
        root = np.sqrt(self.second / (1 - b2**self.done)) + setting.eps
        return w - setting.rate * self.first / (1 - b1**self.done) / root
