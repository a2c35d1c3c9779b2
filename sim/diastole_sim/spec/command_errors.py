"""Errors with which a machine refuses a command, or stops."""

from enum import IntEnum

COMMAND_VERSION = 1
"""The only accepted version of commands."""


class ErrorCode(IntEnum):
    """Codes of the register ``error_code``: NONE, or the reason why the machine stopped. The code
    15 has no meaning. ``ERROR_MEANINGS`` has the texts."""

    NONE = 0
    BAD_OPCODE = 1
    BAD_VERSION = 2
    RESERVED = 3
    ZERO_SIZE = 4
    MISALIGNED = 5
    WINDOW = 6
    READ_RESPONSE = 7
    WRITE_RESPONSE = 8
    TOO_LONG = 9
    BAD_CLASS = 10
    TOO_LARGE = 11
    WIDTH = 12
    BAD_PROGRAM = 13
    NOT_FINITE = 14
    NEST = 16
    BAD_STREAM = 17


ERROR_MEANINGS = {
    ErrorCode.NONE: "no error",
    ErrorCode.BAD_OPCODE: "unknown opcode",
    ErrorCode.BAD_VERSION: f"command version is not {COMMAND_VERSION}",
    ErrorCode.RESERVED: "a reserved bit, or a field that the operation does not use, is not 0",
    ErrorCode.ZERO_SIZE: "a size is 0, or the number of commands is 0",
    ErrorCode.MISALIGNED: "an address is not a multiple of a beat",
    ErrorCode.WINDOW: "a request lies outside the memory windows; the burst was not issued",
    ErrorCode.READ_RESPONSE: "the bus answered a read with an error",
    ErrorCode.WRITE_RESPONSE: "the bus answered a write with an error",
    ErrorCode.TOO_LONG: "the contraction is longer than the accumulators allow",
    ErrorCode.BAD_CLASS: "a tensor's class is unknown, or is not the class of the operand",
    ErrorCode.TOO_LARGE: "a size is too large for the machine or the table",
    ErrorCode.WIDTH: "no tensor of the class has this width on this machine",
    ErrorCode.BAD_PROGRAM: "an instruction of the chain's program breaks a rule",
    ErrorCode.NOT_FINITE: "a chain wrote a NaN or an Inf to a watched constant",
    ErrorCode.NEST: "the machine has no tiles and chunks of these lengths for the product",
    ErrorCode.BAD_STREAM: "a stream of the chain breaks a rule",
}

VECTOR_ERRORS = (ErrorCode.BAD_PROGRAM, ErrorCode.NOT_FINITE, ErrorCode.BAD_STREAM)
"""Errors of machines with a vector unit only."""

PRECEDENCE = (
    ErrorCode.BAD_OPCODE,
    ErrorCode.BAD_VERSION,
    ErrorCode.RESERVED,
    ErrorCode.BAD_CLASS,
    ErrorCode.WIDTH,
    ErrorCode.ZERO_SIZE,
    ErrorCode.TOO_LARGE,
    ErrorCode.TOO_LONG,
    ErrorCode.MISALIGNED,
    ErrorCode.NEST,
    ErrorCode.BAD_STREAM,
    ErrorCode.BAD_PROGRAM,
)
"""Order of reports: of several faults of a command the first in this order is reported. All faults
of the order are found before the command starts. Faults of the bus, and ``NOT_FINITE``, appear
while the command runs."""
IN_TABLES = (ErrorCode.BAD_STREAM, ErrorCode.BAD_PROGRAM)
"""Errors not visible in the command itself. The machine finds the errors in the tables named by the
command, after all earlier commands have written the tables
(:func:`diastole_sim.spec.chains.chain_faults`)."""


class MalformedCommandError(ValueError):
    """Error for a malformed command. ``code`` is the hardware's error code."""

    def __init__(self, code: ErrorCode):
        super().__init__(f"the command is malformed: {ERROR_MEANINGS[code]}")
        self.code = code
