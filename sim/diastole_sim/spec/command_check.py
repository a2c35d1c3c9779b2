"""Check commands: accept a command, or give the error of a refusal."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import (
    COMMAND_VERSION,
    PRECEDENCE,
    ErrorCode,
    MalformedCommandError,
)
from diastole_sim.spec.command_table import (
    ADDRESS_FIELDS,
    CHAINS,
    COMMAND_BYTES,
    CONTRACTIONS,
    FIELDS,
    MULTIPLYING,
    NEST_FIELDS,
    NESTED,
    OPERAND_CLASSES,
    SIZES,
    SLOT_FIELDS,
    TRANSFERS,
    WIDTH_FIELDS,
    Field,
    Opcode,
    fields_of,
    opcodes_of,
    reserved_mask,
)
from diastole_sim.spec.limits import INSTRUCTIONS, PLANE_CHOICES, Limits
from diastole_sim.spec.micro import MAX_INSTRUCTIONS
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import SLOTS, STREAMS


def decode(data: bytes, limits: Limits) -> Command:
    """Return the command in 64 bytes. MalformedCommandError if the hardware would refuse the
    command, ValueError for another number of bytes."""
    if len(data) != COMMAND_BYTES:
        raise ValueError(f"a command is {COMMAND_BYTES} bytes, not {len(data)}")
    bits = int.from_bytes(data, "little")
    codes = faults(bits, limits)
    for code in PRECEDENCE:
        if code in codes:
            raise MalformedCommandError(code)
    assert len(fields(Command)) == len(FIELDS)
    return Command(**_values(bits, fields_of(Opcode(bits & 0xFF))))


def first_refused(commands: Iterable[bytes], limits: Limits) -> tuple[int, ErrorCode] | None:
    """Return the number of the first command with a fault, which the hardware must refuse, and the
    error. None if the hardware takes all commands."""
    for index, data in enumerate(commands):
        try:
            decode(data, limits)
        except MalformedCommandError as error:
            return index, error.code
    return None


def _bad_nest(opcode: Opcode, used: dict[str, int], limits: Limits) -> bool:
    """Return whether a length of the nest is not accepted, or the operands that stay on chip do not
    fit."""
    if opcode not in NESTED:
        return False
    lengths = {name: used[field] for name, field in NEST_FIELDS.items()}
    accepted = limits.nests and limits.nests.of(MULTIPLYING[opcode].name)
    if accepted is None:
        return any(lengths.values()) or used["nest_keep"] != 0
    if any(value and value not in getattr(accepted, name) for name, value in lengths.items()):
        return True
    nest = Nest(**lengths, outer=OUTER[used["nest_outer"]], keep=KEEP_VALUES[used["nest_keep"]])
    (product,) = MULTIPLYING[opcode].products
    t, lanes, contraction = (-(-used[axis] // limits.block) for axis in product.loops)
    streaming, stationary = (
        max_planes(used, operand.tensor_class) if limits.has_planes else 1
        for operand in product.factors
    )
    return accepted.problem(nest, (t, lanes, contraction), (streaming, stationary)) is not None


def max_planes(used: Mapping[str, int], tensor_class: str) -> int:
    """Return the most planes that an operand of a product can have, by the fields of the command.
    If a scale slot decides the planes, return the largest number of planes that a slot may hold."""
    if used[SLOT_FIELDS[tensor_class]]:
        return max(PLANE_CHOICES)
    return used[WIDTH_FIELDS[tensor_class]] + 1


def _bad_width(opcode: Opcode, used: dict[str, int], limits: Limits) -> bool:
    """Return whether a tensor has a number of planes unknown to its class, or takes the number from
    a slot and cannot."""
    if opcode == Opcode.CONVERT:
        number = min(used["class_x"], len(CLASS_NAMES) - 1)
        places, slots = {number: used["width"]}, {number: used["by_slot"] or used["decides"]}
        if slots[number] and not used["slot"]:
            return True
    else:
        named = [(CLASS_NAMES.index(name), name) for name in WIDTH_FIELDS]
        present = [(number, name) for number, name in named if WIDTH_FIELDS[name] in used]
        places = {number: used[WIDTH_FIELDS[name]] for number, name in present}
        slots = {number: used[SLOT_FIELDS[name]] for number, name in present}
    planes = limits.planes or ()
    return any(field + 1 not in planes[number] for number, field in places.items()) or any(
        slot and not limits.choices[number] for number, slot in slots.items()
    )


def _bad_class(opcode: Opcode, used: dict[str, int]) -> bool:
    """Return whether a tensor's class is unknown, or is not the class of the operand's place."""
    if opcode == Opcode.CONVERT:
        return used["class_x"] >= len(CLASS_NAMES)
    return any(used.get(name, place) != place for name, place in OPERAND_CLASSES.items())


def lengths_of(opcode: Opcode) -> tuple[str, ...]:
    """Return the fields of a command that must not be 0."""
    counts = (*SIZES, "program_length", "count")
    return tuple(field.name for field in fields_of(opcode) if field.name in counts)


def _too_large(opcode: Opcode, used: dict[str, int], limits: Limits) -> bool:
    """Return whether a size, or a place in a table, is beyond what the machine holds."""
    largest = dict.fromkeys(SIZES, limits.max_size)
    if opcode == Opcode.CONVERT:
        largest["n"] = min(limits.max_size, limits.max_convert_cols)
    if any(used[name] > largest[name] for name in SIZES if name in used):
        return True
    if opcode in CHAINS:
        return (
            used["program_length"] > MAX_INSTRUCTIONS
            or used["program"] + used["program_length"] > INSTRUCTIONS
            or used["streams"] + STREAMS > SLOTS
        )
    if opcode in TRANSFERS:
        return used["first"] + used["count"] > limits.entries(opcode, used["which"])
    return False


def _values(bits: int, fields: tuple[Field, ...]) -> dict[str, int]:
    return {field.name: bits >> field.low & (1 << field.bits) - 1 for field in fields}


def faults(bits: int, limits: Limits) -> set[ErrorCode]:
    """Return every fault of a command, given as one number of 512 bits. Faults in tables named by
    the command are not included (:func:`diastole_sim.spec.chains.chain_faults`)."""
    if bits & 0xFF not in opcodes_of(vector=limits.has_vector):
        return {ErrorCode.BAD_OPCODE}
    opcode = Opcode(bits & 0xFF)
    used = _values(bits, fields_of(opcode))
    addresses = [used[name] for name in used if name in (*ADDRESS_FIELDS, "advance")]
    longest = limits.block << limits.headroom
    reserved = reserved_mask(
        opcode,
        planes=limits.has_planes,
        vector=limits.has_vector,
        choices=limits.has_choices,
    )
    present = {
        ErrorCode.BAD_VERSION: used["version"] != COMMAND_VERSION,
        ErrorCode.RESERVED: bits & reserved != 0,
        ErrorCode.BAD_CLASS: _bad_class(opcode, used),
        ErrorCode.WIDTH: limits.has_planes and _bad_width(opcode, used, limits),
        ErrorCode.ZERO_SIZE: any(used[name] == 0 for name in lengths_of(opcode)),
        ErrorCode.TOO_LARGE: _too_large(opcode, used, limits),
        ErrorCode.TOO_LONG: any(used[name] > longest for name in CONTRACTIONS[opcode]),
        ErrorCode.MISALIGNED: any(address % (limits.data_width // 8) for address in addresses),
        ErrorCode.NEST: _bad_nest(opcode, used, limits),
    }
    return {code for code, is_present in present.items() if is_present}
