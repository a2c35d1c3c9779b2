"""The device of a command, and what its faults become."""

from types import SimpleNamespace

import numpy as np
import pytest

from diastole import backend, install
from diastole.backend import (
    cached_product,
    compile_seconds,
    make_device,
    make_machine,
    program_limits,
    spoken_time,
    uploaded,
)
from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput, CheckFailed
from diastole.execution import Execution
from diastole_hw.top import Top
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.errors import (
    CommandError,
    HardwareHang,
    ProductError,
    ProtocolError,
)
from diastole_sim.machines.verilator.build import BuildError
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import VectorLimits
from diastole_sim.system.programs import ToolMissing
from support.texts import exactly

PICO = PRODUCTS_ONLY["pico"]


@pytest.fixture
def hardware(monkeypatch, tmp_path):
    """Stands for the class of devices; remembers how they were made, and whether closed."""
    made = []
    product = SimpleNamespace(manifest={"ports": [{"name": "aclk", "width": 1}]})

    class Machine:
        def __init__(self, folder, simulation):
            self.folder, self.simulation, self.product = folder, simulation, product

    class Device:
        def __init__(self, machine, **options):
            self.machine, self.options, self.closed = machine, options, False
            made.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.closed = True

    monkeypatch.setattr("diastole_sim.host.host_device.HostDevice", Device)
    monkeypatch.setattr("diastole_sim.host.vector_machine.VectorMachine", Device)
    monkeypatch.setattr(
        "diastole_sim.machines.verilator.verilator_machine.VerilatorMachine", Machine
    )
    monkeypatch.setattr(backend, "cached_product", lambda config: tmp_path / config.name)
    return made


def test_golden():
    with make_device(Execution(backend="golden", seed=7), PICO) as device:
        assert isinstance(device, NumpyDevice)
        assert (device.numerics, device.seed) == (PICO.numerics, 7)


def test_hardware_of_the_cache(hardware, tmp_path):
    trace = tmp_path / "waves.vcd"
    with make_device(Execution(seed=7, stalls=3, trace=trace), PICO) as device:
        assert [device] == hardware
        assert device.machine.folder == tmp_path / "diastole_pico"
        assert device.machine.simulation == Simulation(stalls=3, trace=trace)
        assert device.options == {"seed": 7, "nest": None}
        assert not device.closed
    assert device.closed
    assert {path.suffix for path in tmp_path.iterdir()} == {".gtkw", ".sucl"}


def test_a_slow_memory(hardware):
    with make_device(Execution(seed=7, latency=90), PICO) as device:
        assert [device] == hardware
        assert device.machine.simulation == Simulation(read_latency=90, write_latency=90)


def test_hardware_of_a_product(hardware, tmp_path):
    with make_device(Execution(seed=0, product=tmp_path / "mine"), PICO) as device:
        assert device.machine.folder == tmp_path / "mine"


@pytest.mark.parametrize(
    "fault, becomes, words",
    [
        (HardwareHang("no interrupt", "pins"), CheckFailed, "no interrupt\npins"),
        (ProtocolError("a stray write"), CheckFailed, "a stray write"),
        (BuildError("g++ failed"), CheckFailed, "g++ failed"),
        (ProductError("no manifest"), CheckFailed, "no manifest"),
        (
            MemoryError("heap is full"),
            BadInput,
            "the work is too large for this computer: heap is full",
        ),
        (MemoryError(), BadInput, "the work is too large for this computer: no memory is left"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_faults(hardware, fault, becomes, words):
    with pytest.raises(becomes) as caught, make_device(Execution(), PICO):
        raise fault
    assert str(caught.value) == words
    assert hardware[0].closed


@pytest.mark.parametrize("code", ErrorCode)
def test_refused_commands(hardware, code):
    """What is too large is the user's to mend; all else is the hardware's fault, or ours."""
    too_large = code in (ErrorCode.TOO_LONG, ErrorCode.TOO_LARGE)
    with (
        pytest.raises(BadInput if too_large else CheckFailed) as caught,
        make_device(Execution(), PICO),
    ):
        raise CommandError("the refusal", code=code, index=0)
    if too_large:
        assert str(caught.value) == "the work is too large for the hardware: the refusal"


def test_held():
    """The golden model takes a stored tensor as it is, the hardware is given a copy."""
    golden = NumpyDevice(PICO.numerics)
    tensor = golden.convert(np.ones((2, 2), np.float32), "x", tag=0)
    assert uploaded(golden, tensor) is tensor

    class Hardware:
        def upload(self, given):
            return "uploaded", given

    assert uploaded(Hardware(), tensor) == ("uploaded", tensor)


@pytest.mark.parametrize("missing", ["find_compiler", "find_verilator", "emission"])
def test_tools_are_looked_for_before_anything_is_generated(monkeypatch, missing):
    def absent(*_):
        raise ToolMissing(missing, "somehow")

    for name in ("find_compiler", "find_verilator"):
        monkeypatch.setattr(backend, name, absent if name == missing else lambda: None)
    monkeypatch.setattr(install, "require", absent if missing == "emission" else lambda *_: None)
    monkeypatch.setattr(backend, "cached", lambda *_: pytest.fail("generated"))
    with pytest.raises(ToolMissing, match=missing):
        cached_product(PICO)


def test_generation_is_told(monkeypatch, capsys, tmp_path):
    calls = []
    monkeypatch.setattr(backend, "find_compiler", lambda: None)
    monkeypatch.setattr(backend, "find_verilator", lambda: None)
    monkeypatch.setattr("diastole.product.generate.generate", lambda *given: calls.append(given))
    monkeypatch.setattr(backend, "cached", lambda config, make: make(config, tmp_path) or tmp_path)
    assert cached_product(PICO) == tmp_path
    assert calls == [(PICO, tmp_path)]
    assert capsys.readouterr().err == (
        "diastole: generating diastole_pico and compiling the Verilog takes about 20 s, "
        "once for this configuration\n"
    )


@pytest.mark.parametrize(
    "preset, said",
    [("nano", "about 20 s"), ("edge", "about 40 s"), ("server", "about 3 min")],
)
def test_how_long_it_takes_roughly(preset, said):
    assert spoken_time(compile_seconds(PRODUCTS_ONLY[preset].macs)) == said


WITH_UNIT = from_document({"vector": {"enable": True, "panel_kib": 4}})


@pytest.fixture
def program():
    """A program of so many bytes."""
    return SimpleNamespace(memory_bytes=5000, roundings={}, areas={})


def test_limits_of_programs():
    limits = program_limits(WITH_UNIT)
    top = Top(WITH_UNIT.plan, config_hash=0)
    top._MustUse__silence = True  # is not elaborated here
    manifest = top.parameters
    assert limits.vector == VectorLimits.from_dict(manifest["vector"])
    assert limits.vector.panel_vectors == 128
    assert limits.nests.to_dict() == manifest["nests"]
    assert limits.data_width == manifest["data_width"]


def test_a_golden_machine(program):
    with make_machine(Execution(backend="golden", seed=7), WITH_UNIT, program) as machine:
        assert isinstance(machine, GoldenMachine)
        assert (machine.numerics, machine.seed) == (WITH_UNIT.numerics, 7)
        assert machine.limits == program_limits(WITH_UNIT)
        assert machine.memory.size == 12288  # whole pages, with room for tables


def test_a_machine_of_the_cache(hardware, program, tmp_path):
    trace = tmp_path / "waves.vcd"
    given = {"seed": 7, "stalls": 3, "latency": 50, "trace": trace, "trace_depth": 2}
    with make_machine(Execution(**given), WITH_UNIT, program) as machine:
        assert [machine] == hardware
        assert machine.machine.folder == tmp_path / "diastole"
        assert machine.options == {"seed": 7}
        assert machine.machine.simulation == Simulation(
            stalls=3, trace=trace, trace_depth=2, memory_base=0, memory_bytes=12288,
            read_latency=50, write_latency=50,
        )  # fmt: skip
    assert machine.closed
    assert (tmp_path / "waves.gtkw").exists()


def test_faults_of_a_machine(hardware, program):
    with pytest.raises(CheckFailed, match=exactly("no end in sight")):
        with make_machine(Execution(), WITH_UNIT, program):
            raise HardwareHang("no end in sight")
