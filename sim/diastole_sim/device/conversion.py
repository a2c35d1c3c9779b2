"""Describes one conversion of a tensor: everything that a device is asked, but the numbers."""

from dataclasses import KW_ONLY, dataclass

from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice, require_int

MAX_TAG = 2**32 - 1


@dataclass(frozen=True)
class Conversion:
    """A class of tensors and what is chosen for one of them. ValueError if that is out of range.

    ``tag``, ``step``: the draws of a tensor are those of (seed, tag, step). ``scale``: the exponent
    of the tensor's scale where it is given; None where there is none, or where it follows from the
    numbers. ``width``: bits of a magnitude, in the format ``fast``; None for the widest.
    ``beside``: it may be done while the next product runs. Whether a class has such a scale or
    width is for its numerics to say.
    """

    tensor_class: str
    _: KW_ONLY
    tag: int = 0
    step: int = 0
    scale: int | None = None
    width: int | None = None
    beside: bool = False

    def __post_init__(self) -> None:
        require_choice("tensor class", self.tensor_class, CLASS_NAMES)
        require_int("tag", self.tag, 0, MAX_TAG)
        require_int("step", self.step, 0, 2**32 - 1)
