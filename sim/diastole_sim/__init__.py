"""Number formats, the golden model, the memory image and timing of Diastole, without hardware.

``quantise`` and ``dequantise`` convert numpy arrays to and from any number format
(:mod:`diastole_sim.codes.api`). ``Codes`` is the result of ``quantise``. Python imports a name at
its first use, so a program pays only for the names in use.
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


if not TYPE_CHECKING:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
