"""Serial port as the line of a link, by pyserial."""

from typing import Any, cast

from diastole_sim.machines.board.board_errors import LinkLost, PortError

DEFAULT_BAUD = 1_000_000
SILENCE_SECONDS = 0.3
"""Seconds without an octet, beyond the time of the requested octets, that mean silence."""
BITS = 10
"""Bits of an octet on the line."""


class SerialPort:
    """Serial port ``name`` at ``baud`` bits per second, 8N1: a
    :class:`diastole_sim.machines.board.link.Line`.

    PortError if the port cannot be opened, LinkLost if the port goes. Octets received earlier are
    thrown away.
    """

    def __init__(self, name: str, *, baud: int = DEFAULT_BAUD):
        import serial  # an optional dependency, for boards only

        self.name, self.baud = name, baud
        self._sent = 0
        self._errors = (OSError, serial.SerialException)  # a vanished terminal has its own error
        try:
            self._port: Any = serial.Serial(name, baudrate=baud, exclusive=True)
            self._port.reset_input_buffer()
        except (*self._errors, ValueError) as error:
            raise PortError(
                f"{name}: cannot be opened as a serial port: {_reason(error)}"
            ) from error

    def send(self, octets: bytes) -> None:
        self._sent = len(octets)
        try:
            self._port.write(octets)
        except self._errors as error:
            raise self._port_error(error) from error

    def receive(self, expected: int) -> bytes:
        seconds = 2 * BITS * (self._sent + expected) / self.baud
        try:
            self._port.timeout = SILENCE_SECONDS + seconds
            first = cast(bytes, self._port.read(1))
            return first + cast(bytes, self._port.read(self._port.in_waiting)) if first else b""
        except self._errors as error:
            raise self._port_error(error) from error

    def close(self) -> None:
        self._port.close()

    def _port_error(self, error: Exception) -> LinkLost:
        return LinkLost(f"{self.name}: the serial port has disappeared: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Return the system's own words, if any."""
    return getattr(error, "strerror", None) or str(error)
