"""Check a chain: the streams and the program that the command names."""

from collections.abc import Sequence

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import CHAINED, Opcode
from diastole_sim.spec.limits import SCALE_SLOTS, Limits, VectorLimits
from diastole_sim.spec.micro import (
    CONSTANTS,
    INPUTS,
    OUTPUTS,
    Instruction,
    Source,
    program_problems,
)
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.stream_table import (
    ONCE_A_BLOCK,
    SLOTS,
    Descriptor,
    Kind,
    StreamLimits,
    Walk,
    stream_problems,
)


def walk_of(command: Command, block: int) -> Walk:
    """Return the blocks of a chain's tensor. For a product with a chain, the tensor is the
    result."""
    rows, cols = command.m, command.n
    if command.opcode in CHAINED:
        (product,) = CHAINED[Opcode(command.opcode)].products
        rows, cols = (getattr(command, axis) for axis in product.result.axes)
    return Walk(rows=rows, cols=cols, block=block, by_columns=bool(command.columns))


def named_streams(program: Sequence[Instruction]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the input streams and of the output streams in a program's
    instructions."""
    sources = {source for each in program for source in each.sources.values()}
    outputs = {each.output for each in program}
    return (
        tuple(number for number in range(INPUTS) if Source.S0 + number in sources),
        tuple(number for number in range(OUTPUTS) if number in outputs),
    )


def chain_faults(
    command: Command,
    descriptors: Sequence[Descriptor],
    instructions: Sequence[Instruction],
    limits: Limits,
) -> set[ErrorCode]:
    """Return every fault of a chain that the command does not show: ``NEST``, ``BAD_STREAM`` and
    ``BAD_PROGRAM``.

    The command has passed :func:`diastole_sim.spec.command_check.decode`. ``descriptors`` and
    ``instructions`` are the whole tables at the start of the command.

    ``NEST``: the chain writes an image of a product whose tiles do not hold whole rows, and the
    converter does not take the tiles as patches.
    """
    assert limits.vector is not None, "a machine without a vector unit has no chains"
    program = instructions[command.program : command.program + command.program_length]
    inputs, outputs = named_streams(program)
    reads = {number: descriptors[command.streams + number] for number in inputs}
    writes = {number: descriptors[command.streams + INPUTS + number] for number in outputs}
    codes: set[ErrorCode] = set()
    if _bad_streams(command, reads, writes, descriptors, limits, limits.vector):
        codes.add(ErrorCode.BAD_STREAM)
    if program_problems(
        program,
        block=limits.block,
        panels=[number for number, stream in reads.items() if stream.kind == Kind.PANEL],
        always_written=[number for number, stream in writes.items() if stream.kind in ONCE_A_BLOCK],
    ):
        codes.add(ErrorCode.BAD_PROGRAM)
    kinds = [stream.kind for stream in writes.values()]
    if kinds.count(Kind.IMAGE) > 1:  # there is a single converter
        codes.add(ErrorCode.BAD_STREAM)
    read_kinds = [stream.kind for stream in reads.values()]
    if read_kinds.count(Kind.DRAWS) > 1:  # there is a single source of random numbers
        codes.add(ErrorCode.BAD_STREAM)
    if command.opcode in CHAINED and Kind.PRODUCT not in read_kinds:  # nothing would take it
        codes.add(ErrorCode.BAD_STREAM)
    if command.opcode in CHAINED and not _has_whole_rows(command, limits):
        codes |= {ErrorCode.BAD_STREAM} if Kind.ROW in kinds else set()
        images = [stream.tensor_class for stream in writes.values() if stream.kind == Kind.IMAGE]
        accepted = (_accepts_patches(command, each, limits, limits.vector) for each in images)
        codes |= set() if all(accepted) else {ErrorCode.NEST}
    return codes


def _bad_streams(
    command: Command,
    reads: dict[int, Descriptor],
    writes: dict[int, Descriptor],
    descriptors: Sequence[Descriptor],
    limits: Limits,
    vector: VectorLimits,
) -> bool:
    """Return whether a stream breaks a rule of the table of streams."""
    walk = walk_of(command, limits.block)
    stream_limits = StreamLimits(
        data_width=limits.data_width,
        panel_vectors=vector.panel_vectors,
        scale_slots=SCALE_SLOTS,
        constants=CONSTANTS,
        choices=limits.choices,
        draws=vector.draws,
    )
    images = [stream for stream in writes.values() if stream.kind == Kind.IMAGE]
    cut = command.opcode in CHAINED and not _has_whole_rows(command, limits)
    widest = (*([limits.max_convert_cols] * len(vector.fed) if cut else vector.fed), 0)
    if any(walk.cols > widest[stream.tensor_class] for stream in images):
        return True
    return any(
        stream_problems(
            stream,
            walk,
            stream_limits,
            output=output,
            of_product=command.opcode in CHAINED,
            index_list=descriptors[stream.aux] if stream.aux < SLOTS else None,
        )
        for output, streams in ((False, reads), (True, writes))
        for stream in streams.values()
    )


def _tile(command: Command, limits: Limits) -> tuple[int, int]:
    """Return the rows and columns of blocks of an output tile of a product."""
    operation = CHAINED[Opcode(command.opcode)]
    nest_limits = limits.nests and limits.nests.of(operation.name)
    assert nest_limits is not None, "a product with a chain takes nests"
    nest = Nest(
        t_blocks=command.nest_t,
        groups=command.nest_groups,
        chunk=command.nest_chunk,
        outer=OUTER[command.nest_outer],
        keep=KEEP_VALUES[command.nest_keep],
    )
    filled = nest_limits.with_defaults(nest)
    return filled.t_blocks, filled.groups * nest_limits.lane_side


def _has_whole_rows(command: Command, limits: Limits) -> bool:
    """Return whether the output tiles of a product hold whole rows of the result."""
    return _tile(command, limits)[1] >= walk_of(command, limits.block).block_cols


def _accepts_patches(
    command: Command, tensor_class: int, limits: Limits, vector: VectorLimits
) -> bool:
    """Return whether the converter takes as patches the tiles of a product without whole rows."""
    walk = walk_of(command, limits.block)
    return vector.patches is not None and vector.patches.accepts(
        tensor_class,
        (walk.block_rows, walk.block_cols),
        _tile(command, limits),
        by_columns=OUTER[command.nest_outer] == "l",
    )
