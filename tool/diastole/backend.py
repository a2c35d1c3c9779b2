"""Make the device that a command runs on: the generated hardware, or the golden model."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from diastole import install
from diastole.config.keys import Config
from diastole.console import note
from diastole.errors import BadInput, CheckFailed
from diastole.execution import Execution
from diastole.product.cached import cached
from diastole.report.wave_views import write_views
from diastole_sim.device.interface import ConvertedTensor, DeviceProtocol
from diastole_sim.golden.convert import Quantised
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.find import find_compiler, find_verilator
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.image import MAX_SIZE, round_up
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.nest import MAX_BLOCKS, Nest, NestLimits, ProductNests

if TYPE_CHECKING:
    from diastole_sim.golden.sharing import SharingMachine
    from diastole_sim.host.running import RunningMachine
    from diastole_sim.host.tensor import DeviceTensor
    from diastole_sim.machines.board.board_machine import BoardMachine
    from diastole_sim.program.program import TrainingProgram
    from diastole_sim.program.run import ProgramMachine

SIZE_ERRORS = (ErrorCode.TOO_LONG, ErrorCode.TOO_LARGE)
"""Errors of commands that are too large for the machine."""
PAGE_BYTES = 4096
HOSTED = NestLimits(
    t_blocks=(MAX_BLOCKS,),
    groups=(MAX_BLOCKS,),
    chunk=(1,),
    chunk_side=1,
    lane_side=1,
    stream_blocks=MAX_SIZE,
    stationary_blocks=MAX_SIZE,
    pass_blocks=1,
)
"""Nests of products that the golden code does not cut into tiles."""
HOSTED_VECTORS = 1 << 16


@contextmanager
def make_device(
    execution: Execution, config: Config, *, nest: Nest | None = None, views: bool = True
) -> Generator[DeviceProtocol]:
    """Make a device, and close the device at the end of the block.

    ``nest`` is the loop nest of the products, for backends with a clock. With ``views``, the waves
    are kept, and views of the waves are written beside the file of the waves.

    ``rtl`` generates a product if the cache has none, and compiles the product if the cache of
    compiled products has no entry. Compilation takes a while (:func:`compile_seconds`).
    ToolMissing if a tool for generation or compilation is absent. A failure of the hardware during
    the use of the device is raised as :class:`CheckFailed`, or as :class:`BadInput` if the hardware
    refused the size of the work.
    """
    if execution.backend == "golden":
        from diastole_sim.golden.numpy_device import NumpyDevice

        yield NumpyDevice(config.numerics, seed=execution.seed)
        return
    from diastole_sim.host.host_device import HostDevice

    with _running(execution, config, views=views) as machine:
        with HostDevice(machine, seed=execution.seed, nest=nest) as device:
            yield device


@contextmanager
def make_machine(
    execution: Execution, config: Config, program: "TrainingProgram"
) -> "Generator[ProgramMachine]":
    """Make a machine with memory for a program, and close the machine at the end of the block.
    Without a vector unit, the hardware converts and multiplies, and the golden code does the rest
    of the program. Generation, views of waves and errors are as for :func:`make_device`."""
    limits = program_limits(config)
    from diastole_sim.program.run import golden_machine
    from diastole_sim.program.verified_run import memory_needed

    size = round_up(memory_needed(program, limits), PAGE_BYTES)
    if execution.backend == "golden":
        yield golden_machine(
            program, config.numerics, limits, memory_bytes=size, seed=execution.seed
        )
        return
    if not config.vector.enable:
        from diastole_sim.host.device_engine import DeviceEngine
        from diastole_sim.host.host_device import HostDevice

        with make_device(execution, config) as device:
            assert isinstance(device, HostDevice), "the backend is not golden"
            yield golden_machine(
                program,
                config.numerics,
                limits,
                memory_bytes=size,
                seed=execution.seed,
                engine=DeviceEngine(device),
            )
        return
    from diastole_sim.host.vector_machine import VectorMachine

    with _running(execution, config, needed=size) as machine:
        with VectorMachine(machine, seed=execution.seed) as vector:
            yield vector


@contextmanager
def _running(
    execution: Execution, config: Config, *, needed: int | None = None, views: bool = True
) -> "Generator[RunningMachine]":
    """Make the machine of a configuration, in simulation or on a board. ``needed`` is the number of
    bytes of memory from address 0 on; None takes the usual memory. The caller closes the
    machine."""
    with _judged_hardware():
        if execution.backend == "board":
            with open_board(config, execution, needed=needed or 0) as board:
                yield board
            return
        from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine

        folder = execution.product or cached_product(config)
        if execution.trace is not None:
            note(
                "recording waves needs a second compilation of the machine, which takes up to "
                "twice as long"
            )
        memory = {} if needed is None else {"memory_base": 0, "memory_bytes": needed}
        machine = VerilatorMachine(folder, execution.simulation(**memory))
        yield machine
        if execution.trace is not None and views:  # the waves are complete now
            _note_views(execution.trace, machine.product)


@contextmanager
def open_board(
    config: Config, execution: Execution, *, needed: int = 0
) -> "Generator[BoardMachine]":
    """Open the machine of a configuration on a board, and free the serial port at the end of the
    block.

    ``needed`` is the number of bytes of memory. BoardError if no board answers. BadInput if the
    memory of the board is too small.
    """
    from diastole_sim.machines.board.board_machine import BoardMachine
    from diastole_sim.machines.board.link import Link
    from diastole_sim.machines.board.port import DEFAULT_BAUD, SerialPort

    install.require(install.PYSERIAL)
    assert execution.port is not None, "an execution on a board has it"
    # The port comes first: generation takes a while, and a mistyped port is noticed at once.
    with closing(SerialPort(execution.port, baud=execution.baud or DEFAULT_BAUD)) as line:
        product = Product.load(generated_product(config))
        board = BoardMachine(product, Link(line))
        if board.memory_bytes < needed:
            raise BadInput(
                f"the program needs {needed} bytes of memory, but the board has "
                f"{board.memory_bytes}; with --set vector.enable=false a host does the "
                "rest of a step"
            )
        yield board


def program_limits(config: Config) -> Limits:
    """Return the limits of a machine, as the machine's manifest has them. A machine without a
    vector unit takes the limits of :data:`HOSTED`, with a panel that holds all vectors, since the
    golden code stands for the vector unit."""
    from diastole_hw.plan_limits import vector_limits

    plan = config.plan
    vector = vector_limits(plan)
    if vector is None:
        nests = ProductNests(forward=HOSTED, dx=HOSTED, dw=HOSTED)
        hosted = VectorLimits(panel_vectors=HOSTED_VECTORS, draws=True)
        return Limits.of(config.numerics, data_width=plan.data_width, nests=nests, vector=hosted)
    return Limits.of(config.numerics, data_width=plan.data_width, nests=plan.nests, vector=vector)


def _note_views(trace: Path, product: Product) -> None:
    written = write_views(trace, product.manifest["ports"])
    note(f"wrote {trace}; views of the waves: {', '.join(map(str, written))}")


@contextmanager
def _judged_hardware() -> Generator[None]:
    """Raise failures of the hardware as errors with a meaning for the user."""
    from diastole_sim.host.errors import CommandError, HardwareError, ProductError
    from diastole_sim.machines.board.board_errors import BoardError
    from diastole_sim.machines.verilator.build import BuildError

    try:
        yield
    except CommandError as error:
        if error.code in SIZE_ERRORS:
            raise BadInput(f"the work is too large for the hardware: {error.message}") from error
        raise CheckFailed(str(error)) from error
    except BoardError as error:
        raise BadInput(str(error)) from error
    except MemoryError as error:
        raise BadInput(
            f"the work is too large for this computer: {str(error) or 'no memory is left'}"
        ) from error
    except (HardwareError, BuildError, ProductError) as error:
        raise CheckFailed(str(error)) from error


def uploaded(device: DeviceProtocol, tensor: Quantised) -> ConvertedTensor:
    """Upload a tensor that is already quantised, and return the tensor as an operand of the
    device."""
    return cast("SharingMachine", device).upload(tensor)


def as_device_tensor(tensor: ConvertedTensor) -> "DeviceTensor":
    """Return a tensor as a tensor of the hardware, which has more members than tensors of other
    devices."""
    from diastole_sim.host.tensor import DeviceTensor

    assert isinstance(tensor, DeviceTensor)
    return tensor


def compile_seconds(multipliers: int) -> float:
    """Return the rough time in seconds of the generation and compilation of a machine, on two cores
    of a few years ago: 20 s for `nano`, 40 s for `edge`."""
    return 15 + multipliers / 100


def spoken_time(seconds: float) -> str:
    """Return a time as text for people who wait."""
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s"
    return f"about {round(seconds / 60)} min"


def cached_product(config: Config) -> Path:
    """Return the folder of the product, generated if the cache has none. Look for the tools
    first."""
    find_compiler()
    find_verilator()
    return generated_product(
        config,
        f" and compiling the Verilog takes {_compile_time(config)}, once for this configuration",
    )


def _compile_time(config: Config) -> str:
    return spoken_time(compile_seconds(config.macs))


def generated_product(config: Config, besides: str = ", once for this configuration") -> Path:
    """Return the folder of the product, generated if the cache has none. ``besides`` ends the
    message about the generation."""
    install.require(*install.EMISSION)
    from diastole.product.generate import generate

    def first(config: Config, folder: Path) -> None:
        note(f"generating {config.name}{besides}")
        generate(config, folder)

    return cached(config, first)
