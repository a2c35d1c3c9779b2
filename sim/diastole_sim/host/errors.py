"""What goes wrong with a product or inside a running one."""

from collections.abc import Mapping


class ProductError(Exception):
    """The directory is no product, or not one that this version can run."""


class HardwareError(Exception):
    """The running hardware did something wrong. ``report`` is the state that it was found in."""

    def __init__(self, message: str, report: str = ""):
        super().__init__(f"{message}\n{report}" if report else message)
        self.message = message
        self.report = report


class HardwareHang(HardwareError):
    """No handshake on any channel for longer than the watchdog allows, or no end in sight."""


class ProtocolError(HardwareError):
    """The hardware broke a rule of its bus, or wrote where it must not."""


class CommandError(HardwareError):
    """The hardware refused a command: ``code`` is its error code, ``index`` the command's place,
    ``registers`` what those of it that have a name held then."""

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
