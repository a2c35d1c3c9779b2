"""Describe one conversion of a tensor: all arguments of the request except the numbers."""

from dataclasses import KW_ONLY, dataclass

from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice, require_int

MAX_TAG = 2**32 - 1


@dataclass(frozen=True)
class Conversion:
    """Class of a tensor and the arguments of one conversion. ValueError if an argument is out of
    range.

    - ``tag``, ``step``: the random bits of a tensor depend on (seed, tag, step).
    - ``scale``: exponent of the tensor's scale if the caller gives the scale; None if the class has
      no scale for the tensor or the scale follows from the numbers.
    - ``width``: bits of a magnitude in the format ``fast``; None for the widest.
    - ``overlap``: True if the conversion may run beside the next product.

    The numerics decide whether a class accepts a scale or a width.
    """

    tensor_class: str
    _: KW_ONLY
    tag: int = 0
    step: int = 0
    scale: int | None = None
    width: int | None = None
    overlap: bool = False

    def __post_init__(self) -> None:
        require_choice("tensor class", self.tensor_class, CLASS_NAMES)
        require_int("tag", self.tag, 0, MAX_TAG)
        require_int("step", self.step, 0, 2**32 - 1)
