"""Model a chain in time: instruction by instruction, with the causes of waits."""

from collections import Counter, deque
from dataclasses import dataclass, field

from diastole_sim.perf.chain_inputs import ChainInputs
from diastole_sim.perf.chain_outputs import ChainOutputs
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.spec.micro import FAR_ROTATION, INPUTS, OUTPUTS, REGISTERS, Instruction, Source
from diastole_sim.spec.sizes.vector_shape import PIPELINE
from diastole_sim.spec.stream_table import GATHERED, Kind, PanelOrder

ENTRIES = 2
"""Instructions that are chosen ahead."""
FETCHED = 3
"""Cycles from the choice of an instruction to the first cycle in which the instruction may be
taken."""
SCANNED, HIDDEN, BEGINS = 14, 4, 4
"""Cycles of a set-up. SCANNED: cycles for a program of at most HIDDEN instructions, which are read
beside the kinds of the streams. BEGINS: cycles from the end of the set-up to the offer of the first
block."""
IMAGE_REQUEST = 2
"""Cycles from the end of the image before to the offer of the first block, for a chain that makes
an image."""


def setup_cycles(task: ChainTask) -> int:
    """Return the cycles from a chain's command to the offer of its first block."""
    cycles = SCANNED + max(len(task.program) - HIDDEN, 0)
    walk = task.walk
    for number in range(INPUTS + OUTPUTS):
        if number < INPUTS:
            stream = task.inputs.get(number)
        else:
            stream = task.outputs.get(number - INPUTS)
        if stream is None:
            continue
        cycles += 1
        if stream.kind == Kind.PANEL:
            rows = walk.block_rows - 1 if stream.aux == PanelOrder.BLOCK else 0
            cycles += rows.bit_length() + 2
        elif stream.per_step:
            cycles += task.step.bit_length() + 2
        if stream.kind in GATHERED:
            cycles += 1
    return cycles + BEGINS


@dataclass(frozen=True, kw_only=True)
class ChainTimes:
    """Times of a chain.

    - ``done``: cycle in which the unit takes its next command.
    - ``last_response``: cycle in which all written data are in memory, 0 if nothing was written.
    - ``converted``: cycle in which another image may begin.
    - ``waits``: cycles of the core by cause.
    - ``read_beats``, ``write_beats``: beats over the bus.
    """

    done: int
    last_response: int
    read_beats: int
    write_beats: int
    converted: int = 0
    waits: Counter[str] = field(default_factory=Counter[str])


class ChainCore:
    """Run instructions in sequence, block by block. ``now``: cycle of the command.
    ``converter_free``: cycle in which the image before is written."""

    def __init__(
        self, vector: ModelledVector, task: ChainTask, now: int = 0, converter_free: int = 0
    ):
        self.vector, self.task = vector, task
        begin = now + setup_cycles(task)
        if any(each.kind == Kind.IMAGE for each in task.outputs.values()):
            begin = max(begin, converter_free + IMAGE_REQUEST)
        self.inputs = ChainInputs(vector, task, begin)
        self.outputs = ChainOutputs(vector, task, begin)
        self.accepted: deque[int] = deque(
            [begin - 2] * ENTRIES
        )  # when the entries before were taken
        self.selected = begin
        self.slot = begin - vector.slot  # when the last instruction was taken
        self.before: Instruction | None = None
        self.released = begin - 1
        self.special, self.owner = begin - 2 * vector.special_cycles, -1
        self.decided = False
        self.waits: Counter[str] = Counter()

    def block(self, block: VisitedBlock, product: int = 0) -> int:
        """Run the instructions of a block; return the cycle in which the block is given back.
        ``product``: first cycle in which the block's first row could arrive from a product."""
        there = self.inputs.block(block, product)
        self.selected += 1  # the block is taken
        for instruction in self.task.program:
            if block.does(instruction):
                self._instruction(instruction, block, there)
            elif not self.decided:
                self.selected += 1
        self.decided = True
        fetched = self._fetch()
        ended = max(fetched, self.released + 1, *there.values(), self.accepted[-1] + 1)
        self.accepted.append(ended)
        self.released = max(ended, self.slot + self.vector.slot)
        self.inputs.release(self.released)
        return self.released

    def end(self) -> ChainTimes:
        """Return the times of the chain after all blocks."""
        rests = self.special + self.vector.special_cycles
        done = max(self.slot + 1 + self.vector.block + PIPELINE, rests, self.released) + 1
        outputs = self.outputs
        done = max(done, outputs.idle)
        return ChainTimes(
            done=done,
            last_response=outputs.last_response,
            read_beats=self.inputs.read_beats,
            write_beats=outputs.write_beats,
            converted=0 if outputs.image is None else outputs.image.end(),
            waits=self.waits,
        )

    def _fetch(self) -> int:
        """Choose the next entry; return the first cycle in which the entry may be taken."""
        self.selected = max(self.selected + 1, self.accepted.popleft() + 1)
        return self.selected + FETCHED

    def _instruction(
        self, instruction: Instruction, block: VisitedBlock, available: dict[int, int]
    ) -> None:
        vector = self.vector
        ready = max(self._fetch(), self.slot + vector.slot, self.accepted[-1] + 1)
        streams = {source - Source.S0 for source in instruction.sources.values()}
        come = max([ready, *(available[number] for number in streams if number in available)])
        output = instruction.output
        gives = output is not None and self.task.outputs[output].kind != Kind.PANEL
        space_cycle = max(come, self.outputs.free_cycle) if gives else come
        accepted = max(space_cycle, self._specials(instruction), self._rows(instruction))
        self.waits["input"] += come - ready
        self.waits["output"] += space_cycle - come
        self.waits["special"] += accepted - space_cycle
        if instruction.special:
            self.special, self.owner = accepted, instruction.d
        elif instruction.d == self.owner:
            self.owner = -1
        if gives:
            assert output is not None
            self.outputs.write_block(output, block, accepted)
            if self._is_paired(instruction):  # a slot for the output, then a slot for the register
                accepted += PIPELINE + self.vector.block - 1
        self.accepted.append(accepted)
        self.slot, self.before = accepted, instruction

    def _specials(self, instruction: Instruction) -> int:
        """Return the cycle from which the special lanes allow an instruction to begin."""
        vector = self.vector
        complete = self.special + vector.special_cycles
        if instruction.turn_rows and instruction.c == self.owner:
            return complete + vector.permuted_cycles
        named = {*instruction.sources.values(), instruction.d}
        if instruction.special or (self.owner >= 0 and self.owner in named):
            return complete
        return 0

    def _rows(self, instruction: Instruction) -> int:
        """Return the cycle from which the rows are ready that an instruction permutes, or reads in
        another order."""
        before = self.before
        if self._is_paired(instruction) or (before and self._is_paired(before)):
            return self.slot + PIPELINE + self.vector.block - 1
        if before is None or not instruction.turn_rows or instruction.c >= REGISTERS:
            return 0
        if before.special or before.d != instruction.c:
            return 0
        return self.slot + PIPELINE + (1 << instruction.turn_rows >> 1)

    def _is_paired(self, instruction: Instruction) -> bool:
        """Return whether rows are processed in pairs: an instruction permutes distant rows of a
        register into the same register."""
        far = self.vector.block > PIPELINE and instruction.turn_rows >= FAR_ROTATION
        return far and instruction.c == instruction.d and not instruction.special


def estimate_chain(
    vector: ModelledVector, task: ChainTask, now: int = 0, converter_free: int = 0
) -> ChainTimes:
    """Return the times of a chain over memory and panel, whose command arrives in cycle ``now``."""
    core = ChainCore(vector, task, now, converter_free)
    for block in task.blocks():
        core.block(block)
    return core.end()
