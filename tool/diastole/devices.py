"""Make devices from a product, a TOML file, a configuration or format names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from diastole_sim.golden import numpy_device as golden
from diastole_sim.host import host_device as host
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import require_int

if TYPE_CHECKING:
    from diastole.config.keys import Config

Formats = str | Mapping[str, str] | Sequence[str]
"""One format name for all classes of tensors, or three names for x, w and dy, by class or in
order."""


class GoldenDevice(golden.NumpyDevice):
    """The numpy model of a machine, bit for bit, without its clock.

    ::

        >>> device = GoldenDevice(formats="mxfp8_e4m3", seed=1)
        >>> device.forward([[1.0, 2.0]], [[3.0], [0.3]]).y
        array([[3.625]], dtype=float32)

    The methods are described in :class:`diastole_sim.device.interface.DeviceProtocol`.

    Parameters
    ----------
    machine : path, Config or Numerics
        Configuration, as a TOML file or made in Python, or a product directory.
    seed : int
        Seed of every stochastic rounding, 32 bits. Two devices with one seed and an equal order of
        equal calls draw equal random bits.
    formats : str, mapping or three names
        Replaces ``machine``: the number format of all tensors, or three formats of ``x``, ``w`` and
        ``dy``, by name or in this order. The remaining keys have their defaults.
    overrides : sequence of str
        Keys to change, in the form of ``--set``: ``("array.block=4", "rounding.x=nearest")``.

    ValueError for a mistake in a parameter, :class:`diastole_sim.host.errors.ProductError` for a
    damaged product.
    """

    def __init__(
        self,
        machine: "Path | str | Config | Numerics | None" = None,
        seed: int = 0,
        *,
        formats: Formats | None = None,
        overrides: Sequence[str] = (),
    ):
        super().__init__(_numerics(machine, formats, overrides), seed)


class Device(host.HostDevice):
    """Machine in simulation: the generated Verilog, in Verilator.

    The methods are described in :class:`diastole_sim.device.interface.DeviceProtocol`. ``close()``,
    or a ``with`` block, ends the simulation.

    Parameters
    ----------
    machine : path, Config or Product
        Product directory, or a configuration, as a TOML file or made in Python. The product of a
        configuration is generated if the cache has none. The first simulation of a product compiles
        for a minute.
    formats, overrides
        Parameters of :class:`GoldenDevice`.
    seed : int
        Seed of every stochastic rounding, 32 bits.
    nest : Nest or None
        Loop nest of every product except the fused pass, which has its own loops. None: the model
        of the machine chooses the loops of every product.
    **options
        ``stalls``, ``trace``, ``read_latency`` and more of
        :class:`diastole_sim.machines.verilator.simulation.Simulation`.

    The errors are described in :class:`diastole_sim.host.host_device.HostDevice` and in
    :class:`diastole_sim.machines.verilator.verilator_machine.VerilatorMachine`.
    """

    def __init__(
        self,
        machine: "Path | str | Config | Product | None" = None,
        *,
        formats: Formats | None = None,
        overrides: Sequence[str] = (),
        seed: int = 0,
        nest: Nest | None = None,
        **options: Any,
    ):
        require_int("seed", seed, 0, 2**32 - 1)  # before anything is compiled
        simulation = Simulation(**options)
        product = _product(machine, formats, overrides)
        super().__init__(VerilatorMachine(product, simulation), seed=seed, nest=nest)


def _product(
    machine: "Path | str | Config | Product | None",
    formats: Formats | None,
    overrides: Sequence[str],
) -> Product | Path | str:
    """Return a product, generated if the cache has none."""
    if isinstance(machine, Product) or _is_product(machine):
        _refuse(formats, overrides, "a product")
        return machine
    from diastole.backend import cached_product

    return cached_product(_config(machine, formats, overrides))


def _is_product(machine: object) -> TypeGuard[Path | str]:
    return isinstance(machine, Path | str) and Path(machine).is_dir()


def _numerics(
    machine: "Path | str | Config | Numerics | None",
    formats: Formats | None,
    overrides: Sequence[str],
) -> Numerics:
    if isinstance(machine, Numerics):
        _refuse(formats, overrides, "Numerics")
        return machine
    if _is_product(machine):
        _refuse(formats, overrides, "a product")
        return Numerics.from_dict(Product.load(machine).parameters["numerics"])
    return _config(machine, formats, overrides).numerics


def _refuse(formats: Formats | None, overrides: Sequence[str], what: str) -> None:
    for name, value in (("formats", formats), ("overrides", overrides)):
        if value:
            raise ValueError(
                f"{name} must be left out, not {value!r}: {what} already has all formats and keys"
            )


def _config(
    machine: "Path | str | Config | None", formats: Formats | None, overrides: Sequence[str]
) -> "Config":
    """Return the configuration. ValueError with a line for each mistake."""
    # Imported in the function: a device of Numerics or of a product needs no configuration.
    from diastole.config.file import from_document, load_config
    from diastole.config.keys import Config
    from diastole.errors import BadInput

    if (machine is None) == (formats is None):
        raise ValueError(
            "a device needs either a machine (a TOML file, a Config or a product "
            "directory) or formats: give exactly one"
        )
    try:
        if formats is not None:
            return from_document({"format": _class_arguments(formats)}, overrides, source="formats")
        if isinstance(machine, Config):
            return from_document(machine.to_dict(), overrides)
        if isinstance(machine, Path | str):
            return load_config(machine, overrides)
    except BadInput as error:
        raise ValueError(str(error).replace("--set:", "overrides:")) from None
    raise ValueError(f"machine must be a path, a Config or Numerics, not {type(machine).__name__}")


def _class_arguments(formats: object) -> dict[str, str]:
    if isinstance(formats, str):
        return dict.fromkeys(CLASS_NAMES, formats)
    if isinstance(formats, Mapping):
        return dict(cast(Mapping[str, str], formats))
    if not isinstance(formats, Sequence) or len(cast(Sequence[str], formats)) != 3:
        names = ", ".join(CLASS_NAMES)
        raise ValueError(
            f"formats must be a single name, or a name for each of {names}, not {formats!r}"
        )
    return dict(zip(CLASS_NAMES, cast(Sequence[str], formats), strict=True))
