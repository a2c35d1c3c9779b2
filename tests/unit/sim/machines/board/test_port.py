"""A serial port, with a pseudo-terminal in its place."""

import os
import tty

import pytest

from diastole_sim.machines.board import port as port_module
from diastole_sim.machines.board.board_errors import LinkLost, PortError
from diastole_sim.machines.board.port import SerialPort


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(port_module, "SILENCE_SECONDS", 0.05)
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, slave
    for end in (master, slave):
        try:
            os.close(end)
        except OSError:
            continue


def test_octets_go_both_ways(ends):
    master, slave = ends
    port = SerialPort(os.ttyname(slave), baud=115_200)
    every = bytes(range(256))
    port.send(every)
    assert os.read(master, 1000) == every
    os.write(master, every)
    heard = b""
    while len(heard) < 256:
        heard += port.receive(256)
    assert heard == every
    assert port.receive(1) == b""
    port.close()


def test_what_was_there_before_is_thrown_away(ends):
    master, slave = ends
    os.write(master, b"of somebody else")
    port = SerialPort(os.ttyname(slave))
    assert port.receive(1) == b""
    port.close()


def test_a_port_that_another_has(ends):
    _, slave = ends
    port = SerialPort(os.ttyname(slave))
    with pytest.raises(
        PortError, match=f"^{os.ttyname(slave)}: cannot be opened as a serial port: "
    ):
        SerialPort(os.ttyname(slave))
    port.close()


def test_no_port(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        path = tmp_path / name
        with pytest.raises(PortError, match=f"^{path}: cannot be opened as a serial port: "):
            SerialPort(str(path))


def test_a_cable_that_is_pulled(ends):
    master, slave = ends
    port = SerialPort(os.ttyname(slave))
    os.close(master)
    with pytest.raises(LinkLost, match="the serial port has disappeared: "):
        ask(port)
    port.close()


def ask(port):
    for _ in range(3):
        port.send(b"anybody?")
        port.receive(1)
