"""Makes the device that a command runs on: the generated hardware, or the golden model."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from diastole import install
from diastole.config.keys import Config
from diastole.console import note
from diastole.errors import BadInput, CheckFailed
from diastole.product.cache import cached
from diastole.report.wave_views import write_views
from diastole_sim.device.interface import ConvertedTensor, DeviceProtocol
from diastole_sim.golden.convert import Quantised
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.find import find_compiler, find_verilator
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.image import round_up
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import Nest

if TYPE_CHECKING:
    from diastole_sim.golden.parts import SharingMachine
    from diastole_sim.host.tensor import DeviceTensor
    from diastole_sim.machines.board.machine import BoardMachine
    from diastole_sim.program.program import TrainingProgram
    from diastole_sim.program.run import ProgramMachine

REFUSED_BY_SIZE = (ErrorCode.TOO_LONG, ErrorCode.TOO_LARGE)
"""Errors of commands that are too much for the machine."""
PAGE_BYTES = 4096


@contextmanager
def make_device(
    backend: str,
    config: Config,
    *,
    seed: int,
    stalls: int | None = None,
    trace: Path | None = None,
    trace_depth: int | None = None,
    product: Path | None = None,
    nest: Nest | None = None,
    latency: int | None = None,
    port: str | None = None,
    baud: int | None = None,
    views: bool = True,
) -> Generator[DeviceProtocol]:
    """A device with one seed, closed in the end. ``stalls``, a seed, ``trace``, a file of waves of
    ``trace_depth`` levels of modules, ``nest`` and ``latency``, cycles of the memory, are for
    ``rtl``. ``port`` and ``baud`` are of ``board``. ``views``: the waves stay, and views of them
    are written beside.

    ``rtl`` runs ``product``, or generates one if the cache has none, and compiles it if the cache
    of compiled ones has none, which takes a while (:func:`compile_seconds`).
    ToolMissing if a tool for that is absent. What goes wrong in the hardware while the device is
    used comes out as :class:`CheckFailed`, or :class:`BadInput` if it refused the size of the work.
    """
    if backend == "golden":
        from diastole_sim.golden.device import GoldenDevice

        yield GoldenDevice(config.numerics, seed=seed)
        return
    from diastole_sim.host.device import Device
    from diastole_sim.machines.verilator.machine import Machine

    with _judged_hardware():
        if backend == "board":
            with open_board(config, port, baud) as board:
                yield Device(board, seed=seed, nest=nest)
            return
        folder = product or cached_product(config)
        options = _rtl_options(stalls, trace, trace_depth, latency)
        machine = Machine(folder, Simulation(**options))
        with Device(machine, seed=seed, nest=nest) as device:
            yield device
        if trace is not None and views:  # they are complete now
            _note_views(trace, device.product)


@contextmanager
def make_machine(
    backend: str,
    config: Config,
    program: "TrainingProgram",
    *,
    seed: int,
    product: Path | None = None,
    stalls: int | None = None,
    trace: Path | None = None,
    trace_depth: int | None = None,
    latency: int | None = None,
    port: str | None = None,
    baud: int | None = None,
) -> "Generator[ProgramMachine]":
    """A machine with a vector unit and memory for a program, closed in the end. All else is as of
    :func:`make_device`."""
    limits = program_limits(config)
    from diastole_sim.program.verified_run import memory_needed

    size = round_up(memory_needed(program, limits), PAGE_BYTES)
    if backend == "golden":
        from diastole_sim.golden.machine import GoldenMachine

        yield GoldenMachine(config.numerics, limits, memory_bytes=size, seed=seed)
        return
    from diastole_sim.host.bell import BellMachine
    from diastole_sim.machines.verilator.machine import Machine

    with _judged_hardware():
        if backend == "board":
            with open_board(config, port, baud, needed=size) as board:
                yield BellMachine(board, seed=seed)
            return
        folder = product or cached_product(config)
        options = _rtl_options(stalls, trace, trace_depth, latency)
        simulation = Simulation(memory_base=0, memory_bytes=size, **options)
        with BellMachine(Machine(folder, simulation), seed=seed) as machine:
            yield machine
        if trace is not None:
            _note_views(trace, machine.product)


@contextmanager
def open_board(
    config: Config, port: str | None, baud: int | None, *, needed: int = 0
) -> "Generator[BoardMachine]":
    """The machine of a configuration on the board at a port, which is given back in the end.
    ``needed``: bytes of memory. BoardError if it is not there; BadInput if its memory is too small.
    """
    from diastole_sim.machines.board.link import Link
    from diastole_sim.machines.board.machine import BoardMachine
    from diastole_sim.machines.board.port import DEFAULT_BAUD, SerialPort

    install.require(install.PYSERIAL)
    product = Product.load(generated_product(config))
    assert port is not None, "the command line asks for it"
    with closing(SerialPort(port, baud=baud or DEFAULT_BAUD)) as line:
        board = BoardMachine(product, Link(line))
        if board.memory_bytes < needed:
            raise BadInput(
                f"the program needs {needed} bytes of memory, and the board has "
                f"{board.memory_bytes}; with --set vector.enable=false a host does the rest of a "
                "step"
            )
        yield board


def program_limits(config: Config) -> Limits:
    """What a machine accepts, as its manifest has it. ``config`` has a vector unit."""
    from diastole_hw.limits import vector_limits

    plan = config.plan
    vector = vector_limits(plan)
    return Limits.of(config.numerics, data_width=plan.data_width, nests=plan.nests, vector=vector)


def _rtl_options(
    stalls: int | None, trace: Path | None, trace_depth: int | None, latency: int | None
) -> dict[str, Any]:
    """Of a machine in Verilator."""
    names = () if latency is None else ("read_latency", "write_latency")
    options: dict[str, Any] = {"stalls": stalls, "trace": trace, **dict.fromkeys(names, latency)}
    if trace is not None:
        note("with waves, a machine is compiled once more, in up to twice the time")
        options["trace_depth"] = trace_depth or 0
    return options


def _note_views(trace: Path, product: Product) -> None:
    written = write_views(trace, product.manifest["ports"])
    note(f"wrote {trace}; views of it: {', '.join(map(str, written))}")


@contextmanager
def _judged_hardware() -> Generator[None]:
    """What goes wrong in the hardware, as what it means to the user."""
    from diastole_sim.host.errors import CommandError, HardwareError, ProductError
    from diastole_sim.machines.board.errors import BoardError
    from diastole_sim.machines.verilator.build import BuildError

    try:
        yield
    except CommandError as error:
        if error.code in REFUSED_BY_SIZE:
            raise BadInput(f"too large for the hardware: {error.message}") from error
        raise CheckFailed(str(error)) from error
    except BoardError as error:
        raise BadInput(str(error)) from error
    except MemoryError as error:
        raise BadInput(f"too large for this computer: {str(error) or 'no memory'}") from error
    except (HardwareError, BuildError, ProductError) as error:
        raise CheckFailed(str(error)) from error


def held(device: DeviceProtocol, tensor: Quantised) -> ConvertedTensor:
    """A tensor that is stored already, as an operand of the device."""
    return cast("SharingMachine", device).upload(tensor)


def in_machine(tensor: ConvertedTensor) -> "DeviceTensor":
    """A tensor of the hardware, which knows more of it than other devices do."""
    from diastole_sim.host.tensor import DeviceTensor

    assert isinstance(tensor, DeviceTensor)
    return tensor


def compile_seconds(multipliers: int) -> float:
    """Of a machine's generation and compilation, roughly, on two cores of a few years ago: 20 s of
    `nano`, 40 s of `edge`."""
    return 15 + multipliers / 100


def spoken_time(seconds: float) -> str:
    """For people who wait."""
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s"
    return f"about {round(seconds / 60)} min"


def cached_product(config: Config) -> Path:
    """The folder of the product, generated if need be; looks for the tools before it begins."""
    find_compiler()
    find_verilator()
    return generated_product(
        config, f" and compiling its Verilog, once for this configuration: {_compile_time(config)}"
    )


def _compile_time(config: Config) -> str:
    return spoken_time(compile_seconds(config.macs))


def generated_product(config: Config, besides: str = ", once for this configuration") -> Path:
    """The folder of the product, generated if need be. ``besides``: what is said of that."""
    install.require(*install.EMISSION)
    from diastole.product.generate import generate

    def first(config: Config, folder: Path) -> None:
        note(f"generating {config.name}{besides}")
        generate(config, folder)

    return cached(config, first)
