"""The driver, on a hand-written product whose behaviour is known."""

import re

import numpy as np
import pytest

import diastole_sim.machines.verilator.build as build_module
from diastole_sim.host.errors import HardwareHang, ProtocolError
from diastole_sim.machines.verilator.build import require_fst
from diastole_sim.machines.verilator.find import find_compiler
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.system.programs import ToolMissing
from support.sweep import sweep

CONTROL, STATUS, COUNT, MISCHIEF, POWERUP = 0x0C, 0x10, 0x30, 0x34, 0x38
START, RESET, IRQ_ENABLE = 1, 2, 1 << 8
DONE, ERROR = 2, 4
EARLY_LAST, UNSTABLE, CROSS, SILENT, PARTIAL = range(1, 6)
AWAY = 1 << 20  # from the source to the destination


def prepare(machine, beats, mischief=0):
    """Fill the source with noise; return it, and a view of the destination."""
    size = beats * machine.product.data_width // 8
    source, destination = machine.memory_base, machine.memory_base + AWAY
    data = np.random.default_rng(beats).integers(0, 256, size, dtype=np.uint8)
    machine.bytes_at(source, size)[:] = data
    for register, value in ((0x20, source), (0x28, destination)):
        machine.write(register, value & 0xFFFFFFFF)
        machine.write(register + 4, value >> 32)
    machine.write(COUNT, beats)
    machine.write(MISCHIEF, mischief)
    return data, machine.bytes_at(destination, size)


def start(machine):
    machine.write(CONTROL, START | IRQ_ENABLE)


@pytest.mark.parametrize("data_width", [sweep(32), 64, 512])
def test_copies(copier, data_width):
    with VerilatorMachine(copier(data_width)) as machine:
        data, destination = prepare(machine, 100)
        start(machine)
        machine.run()
        assert machine.read(STATUS) == DONE
        assert (destination == data).all()
        traffic = machine.traffic()
        assert (traffic.read_bursts, traffic.read_beats) == (7, 100)
        assert (traffic.write_bursts, traffic.write_beats) == (7, 100)
        assert traffic.first_written == machine.memory_base + AWAY
        assert traffic.end_written == machine.memory_base + AWAY + data.size
        assert machine.cycles_per_second > 0


def test_latency_is_as_asked(copier):
    """A burst of one beat: its cycles grow by exactly what the latencies grow."""
    cycles = {}
    for read, write in ((1, 5), (20, 5), (1, 24), (50, 34)):
        with VerilatorMachine(
            copier(), Simulation(read_latency=read, write_latency=write)
        ) as machine:
            prepare(machine, 1)
            start(machine)
            cycles[read, write] = machine.run()
    assert cycles[20, 5] - cycles[1, 5] == 19
    assert cycles[1, 24] - cycles[1, 5] == 19
    assert cycles[50, 34] - cycles[1, 5] == 49 + 29


def test_one_beat_per_cycle(copier):
    """Sixteen beats take fifteen cycles more than one, twice: once in, once out."""
    cycles = {}
    for beats in (1, 16):
        with VerilatorMachine(copier()) as machine:
            prepare(machine, beats)
            start(machine)
            cycles[beats] = machine.run()
    assert cycles[16] - cycles[1] == 30


@pytest.mark.parametrize("seed", range(6))
def test_stalls_change_only_time(copier, seed):
    cycles = []
    for _ in range(2):
        with VerilatorMachine(copier(), Simulation(stalls=seed)) as machine:
            data, destination = prepare(machine, 1000)
            start(machine)
            cycles.append(machine.run())
            assert (destination == data).all()
    with VerilatorMachine(copier()) as machine:
        prepare(machine, 1000)
        start(machine)
        free = machine.run()
    assert cycles[0] == cycles[1] > 1.1 * free


def test_seeds_differ(copier):
    cycles = set()
    for seed in range(6):
        with VerilatorMachine(copier(), Simulation(stalls=seed)) as machine:
            prepare(machine, 200)
            start(machine)
            cycles.add(machine.run())
    assert len(cycles) == 6


def test_power_up(copier):
    """Registers without initial value: zero, or under stalls random from the seed."""

    def value(stalls):
        with VerilatorMachine(copier(), Simulation(stalls=stalls)) as machine:
            return machine.read(POWERUP)

    assert value(None) == 0
    assert value(1) == value(1) != value(2)


def test_two_products_in_one_process(copier):
    with VerilatorMachine(copier(64)) as narrow, VerilatorMachine(copier(512)) as wide:
        for machine in (narrow, wide):
            data, destination = prepare(machine, 40)
            start(machine)
            machine.run()
            assert (destination == data).all()


def test_write_takes_effect_with_its_response(copier):
    with VerilatorMachine(copier(), Simulation(write_latency=500)) as machine:
        data, destination = prepare(machine, 16)
        start(machine)
        machine.idle(300)
        assert not destination.any()
        machine.run()
        assert (destination == data).all()


def test_strobes(copier):
    with VerilatorMachine(copier()) as machine:
        data, destination = prepare(machine, 20, PARTIAL)
        start(machine)
        machine.run()
        wanted = np.where(np.isin(np.arange(data.size) % 8, (1, 2)), data, 0)
        assert (destination == wanted).all()
        assert machine.traffic().first_written == machine.memory_base + AWAY + 1
        assert machine.traffic().end_written == machine.memory_base + AWAY + data.size - 5


def test_error_responses(copier):
    with VerilatorMachine(copier()) as machine:
        source, destination = machine.memory_base, machine.memory_base + AWAY
        for fail, area in ((machine.fail_reads, source), (machine.fail_writes, destination)):
            data, copy = prepare(machine, 100)
            copy[:] = 0
            fail((area + 40 * 8, area + 41 * 8))
            start(machine)
            machine.run()
            assert machine.read(STATUS) & (DONE | ERROR) == ERROR
            assert (copy[: 32 * 8] == data[: 32 * 8]).all()
            assert not copy[48 * 8 :].any()
            fail()
        data, copy = prepare(machine, 100)
        start(machine)
        machine.run()
        assert machine.read(STATUS) == DONE
        assert (copy == data).all()


@pytest.mark.parametrize("register", [0x24, 0x2C], ids=["reads", "writes"])
def test_outside_of_memory(copier, register):
    with VerilatorMachine(copier(), Simulation(memory_bytes=AWAY + 400)) as machine:
        prepare(machine, 3)
        machine.write(register, 0x7F)
        start(machine)
        machine.run()
        assert machine.read(STATUS) == ERROR
        with pytest.raises(IndexError, match=r"^500 bytes at 0x4000100000 lie outside the memory"):
            machine.bytes_at(machine.memory_base + AWAY, 500)


def test_strays_are_counted(copier):
    with VerilatorMachine(copier()) as machine:
        prepare(machine, 100)
        first = machine.memory_base + AWAY
        machine.allow_writes((first, first + 30 * 8), (first + 30 * 8, first + 90 * 8))
        start(machine)
        machine.run()
        traffic = machine.traffic(clear=True)
        assert (traffic.strays, traffic.first_stray) == (10, first + 90 * 8)
        assert machine.traffic().strays == 0


def start_and_run(machine):
    start(machine)
    machine.run()


@pytest.mark.parametrize(
    "mischief, text",
    [
        (EARLY_LAST, "m_axi_w: wlast is 1 at beat 15 of 16"),
        (CROSS, "m_axi_ar: 16 beats at 0x4000000ff8 cross 4 KiB"),
    ],
)
def test_broken_rules_are_found(copier, mischief, text):
    with VerilatorMachine(copier()) as machine:
        prepare(machine, 100, mischief)
        with pytest.raises(ProtocolError, match=re.escape(text)):
            start_and_run(machine)
        machine.reset()
        data, destination = prepare(machine, 10)
        start(machine)
        machine.run()
        assert (destination == data).all()


def test_unstable_payload_is_found(copier):
    with VerilatorMachine(copier(), Simulation(stalls=2)) as machine:
        prepare(machine, 1000, UNSTABLE)
        start(machine)
        with pytest.raises(ProtocolError, match="m_axi_w: payload changed before ready"):
            machine.run()


def test_hang(copier):
    with VerilatorMachine(copier(), Simulation(watchdog_cycles=1000)) as machine:
        prepare(machine, 10, SILENT)
        start(machine)
        with pytest.raises(HardwareHang) as caught:
            machine.run()
        assert caught.value.message == "the hardware hangs: no handshake for 1001 cycles"
        assert "1 reads and 0 writes open" in caught.value.report
        assert "m_axi_r: valid 1, ready 0" in caught.value.report
        machine.write(CONTROL, RESET | IRQ_ENABLE)
        assert machine.read(STATUS) == 0
        machine.idle(5000)


def test_limit(copier):
    with VerilatorMachine(copier()) as machine:
        prepare(machine, 1000)
        start(machine)
        with pytest.raises(HardwareHang, match="the machine raised no interrupt within 50 cycles"):
            machine.run(limit=50)
        machine.run()
        assert machine.read(STATUS) == DONE


def test_trace(copier, tmp_path):
    path = tmp_path / "waves.vcd"
    with VerilatorMachine(copier(), Simulation(trace=path)) as machine:
        prepare(machine, 3)
        start(machine)
        machine.run()
    text = path.read_text()
    assert "$timescale" in text
    assert "m_axi_araddr" in text
    assert "powerup" in text
    last = max(int(line[1:]) for line in text.splitlines() if line.startswith("#"))
    assert last > 600, "the trace ends early"
    with pytest.raises(OSError, match="No such file"):
        VerilatorMachine(copier(), Simulation(trace=tmp_path / "missing" / "waves.vcd"))


def traced(copier, path, depth=0):
    with VerilatorMachine(copier(), Simulation(trace=path, trace_depth=depth)) as machine:
        prepare(machine, 3)
        start(machine)
        machine.run()
    return path


def test_levels_of_a_trace(copier, tmp_path):
    """Of one level there are the product's own signals, without those of the harness around it."""
    texts = [traced(copier, tmp_path / f"{depth}.vcd", depth).read_text() for depth in (0, 1)]
    whole, top = (text.count("$var") for text in texts)
    assert 0 < top < whole
    assert "m_axi_araddr" in texts[1]
    assert texts[0].count("m_axi_araddr") > texts[1].count("m_axi_araddr") == 1


def test_trace_in_fst(copier, tmp_path):
    try:
        require_fst(find_compiler())
    except ToolMissing as error:
        pytest.skip(str(error))
    path = traced(copier, tmp_path / "waves.fst")
    assert path.read_bytes()[0] == 0, "the block that an FST file begins with"
    assert path.stat().st_size < traced(copier, tmp_path / "waves.vcd").stat().st_size / 2


def test_what_fst_needs(monkeypatch):
    monkeypatch.setattr(build_module, "FST_HEADERS", ("vector", "no_such_header.h"))
    text = "no_such_header.h, for waves in FST is missing; install it with: sudo apt-get install "
    with pytest.raises(ToolMissing, match=text):
        require_fst(find_compiler())
