"""Diastole: from one configuration file to the hardware that trains neural networks.

::

    >>> import diastole
    >>> diastole.quantise([[1.0, -3.0, 0.3, 8.0]], "mxfp4_e2m1").values()
    array([[ 1., -3.,  0.,  8.]], dtype=float32)

``Device`` runs a generated product in simulation. ``GoldenDevice`` is the numpy model of the
product, with equal methods and equal bits. A TOML file, a ``Config`` or ``formats=`` describes the
machine of a device. ``quantise`` and ``dequantise`` convert arrays to and from any number format.
``formats`` is the module of all number formats. ``Config`` holds the content of a TOML file, and
``load_config`` reads the file. Devices and quantisers read float32, and give a ``RoundedWarning``
for an array that float32 must round. A name is imported at its first use: a program loads only the
parts that the program needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diastole.config.file import load_config
    from diastole.config.keys import Config
    from diastole.devices import Device, GoldenDevice
    from diastole_sim.codes.api import dequantise, quantise
    from diastole_sim.device.arrays import RoundedWarning
    from diastole_sim.spec import formats

    __version__: str

__all__ = [
    "Config",
    "Device",
    "GoldenDevice",
    "RoundedWarning",
    "__version__",
    "dequantise",
    "formats",
    "load_config",
    "quantise",
]

_HOMES = {
    "Config": "diastole.config.keys",
    "Device": "diastole.devices",
    "GoldenDevice": "diastole.devices",
    "RoundedWarning": "diastole_sim.device.arrays",
    "dequantise": "diastole_sim.codes.api",
    "quantise": "diastole_sim.codes.api",
    "load_config": "diastole.config.file",
}


if not TYPE_CHECKING:  # with __getattr__, a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib import metadata  # slow to import

            try:
                return metadata.version("diastole")
            except metadata.PackageNotFoundError:  # run from its sources
                return "unknown"
        if name == "formats":
            return import_module("diastole_sim.spec.formats")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
