"""Errors of a product or of running hardware."""

from collections.abc import Mapping


class ProductError(Exception):
    """Error: the directory is no product, or no product for this version."""


class HardwareError(Exception):
    """Error of running hardware. ``report`` is the state of the hardware at the error."""

    def __init__(self, message: str, report: str = ""):
        super().__init__(f"{message}\n{report}" if report else message)
        self.message = message
        self.report = report


class HardwareHang(HardwareError):
    """Error: no handshake on any channel for longer than the watchdog allows, or no end in
    sight."""


class ProtocolError(HardwareError):
    """Error: the hardware broke a rule of its bus, or wrote to a forbidden address."""


class CommandError(HardwareError):
    """Error: the hardware refused a command. ``code`` is the error code, ``index`` the place of the
    command. ``registers`` has the values of all named registers at the error."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        index: int,
        report: str = "",
        registers: Mapping[str, int] | None = None,
    ):
        super().__init__(message, report)
        self.code = code
        self.index = index
        self.registers = dict(registers or {})
