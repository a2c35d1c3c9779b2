"""Numbers and time of Diastole: formats, the golden model, memory image, timing; no hardware.

``quantise`` and ``dequantise`` are for any number format on numpy arrays
(:mod:`diastole_sim.codes.api`), ``Codes`` what they exchange. Each is imported when it is asked
for, so that what needs one alone does not pay for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diastole_sim.codes.api import dequantise, quantise
    from diastole_sim.codes.standard import Codes

__all__ = ["Codes", "dequantise", "quantise"]

_HOMES = {
    "Codes": "diastole_sim.codes.standard",
    "dequantise": "diastole_sim.codes.api",
    "quantise": "diastole_sim.codes.api",
}


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
