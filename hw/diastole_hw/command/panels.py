"""Check, before a command starts, whether the blocks that its loop nest keeps on chip fit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.decoder import layout_for
from diastole_hw.data_registers import data_register
from diastole_hw.transfer.times import times
from diastole_sim.spec.command_table import (
    MULTIPLYING,
    SLOT_FIELDS,
    WIDTH_FIELDS,
    opcodes_of,
)
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.limits import PLANE_CHOICES, Limits
from diastole_sim.spec.operations import OPERATIONS


class Panels(wiring.Component):
    """Check the kept blocks of a command's loop nest, as
    :meth:`diastole_sim.spec.nest.NestLimits.problem` does.

    The number of kept blocks of an operand, per bank, is a product of lengths: slices of a chunk,
    blocks of a T tile or lane groups, chunks, where all tiles are kept the number of tiles, and the
    number of planes where there are several. The unit multiplies length by length: it adds the
    count found before to itself as often as the next length says, until the count exceeds the
    capacity.

    Timing: an operand takes 3 cycles for each of its lengths and 1 cycle for each addition, fewer
    if the operand does not fit. ``done`` follows 2 cycles after the last addition.

    Parameters
    ----------
    limits : Limits
        Limits of the machine; must contain ``nests``.

    Members
    -------
    start : In(1)
        Pulse.
    command : In(layout_for(limits))
        Valid command, except for its kept blocks; must stay stable from ``start`` to ``done``.
    done : Out(1)
        High until the next ``start``.
    fits : Out(1)
        Result, valid with ``done``; meaningless if nothing is kept.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        super().__init__(
            {
                "start": In(1),
                "command": In(layout_for(limits)),
                "done": Out(1),
                "fits": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        nests, keeps = self.limits.nests, self.command.nest_keep
        assert nests is not None
        rooms = nests.forward.stream_blocks, nests.forward.stationary_blocks
        operands = self._lengths(m, nests)
        last = len(operands[0]) - 1
        stationary = data_register()  # the current operand: 1 is the stationary operand
        at = data_register(range(last + 1))  # number of the current length
        loads = data_register()
        ended = Signal(init=1)
        step = data_register(max(len(step) for lengths in operands for _, step in lengths))
        left = data_register(signed(max(EXTENT_BITS, len(step)) + 2))  # negative rest of the length
        begins = data_register()  # ``left`` lacks 1
        blocks = data_register(range(3 * max(rooms) + 1))
        beyond = data_register()  # ``blocks`` exceeds the capacity, or did before
        complete = data_register()
        factor = data_register(blocks.shape())  # found before this length
        after = Signal.like(left)
        m.d.sync += beyond.eq(beyond | (blocks > Mux(stationary, rooms[1], rooms[0])))
        m.d.comb += [after.eq(left + step + begins), self.done.eq(ended & ~self.start)]
        # End: the count exceeds the capacity, or is complete.
        with m.If(beyond | complete):
            m.d.sync += [ended.eq(1), self.fits.eq(~beyond)]
        # Load the next length.
        with m.Elif(loads):
            m.d.sync += [loads.eq(0), begins.eq(1), factor.eq(blocks)]
            with m.Switch(Cat(at, stationary)):
                for number, lengths in enumerate(operands):
                    for n, (size, each) in enumerate(lengths):
                        with m.Case(number << len(at) | n):
                            ones = Const(-1, signed(len(left) - len(size)))
                            m.d.sync += [left.eq(Cat(~size, ones)), step.eq(each)]
        # Go through the steps of the length, and add once per further step.
        with m.Elif(begins | (left < 0)):
            m.d.sync += [left.eq(after), begins.eq(0)]
            with m.If(~begins):
                m.d.sync += blocks.eq(blocks + factor)
        # Go on to the next length.
        with m.Elif(at != last):
            m.d.sync += [at.eq(at + 1), loads.eq(1)]
        # Go on to the stationary operand.
        with m.Elif(~stationary & keeps[1]):
            m.d.sync += [stationary.eq(1), at.eq(0), loads.eq(1)]
            m.d.sync += blocks.eq(nests.forward.pass_blocks)
        with m.Else():
            m.d.sync += complete.eq(1)
        with m.If(self.start):
            m.d.sync += [ended.eq(0), stationary.eq(~keeps[0]), at.eq(0), loads.eq(1)]
            m.d.sync += [complete.eq(0), beyond.eq(0)]
            m.d.sync += blocks.eq(Mux(keeps[0], 1, nests.forward.pass_blocks))
        return m

    def _lengths(self, m, nests):
        """Return the lengths of the streaming and of the stationary operand, as pairs: a size, and
        the part of the size that one step covers. Both are at least 1, or the size is 0 for a
        length of one step."""
        own = self._of_operation(m, nests)
        command, low = self.command, (self.limits.block - 1).bit_length()
        all_tiles = command.nest_outer

        def lengths(count, whole, size, blocks, planes):
            nest_lengths = [
                (own["chunk"], own["chunk_side"]),
                (own[count], Const(1)),
                (own["contraction"], own["chunk"] << low),
                (Mux(whole, own[size], 0), own[blocks] << low),
            ]
            return (
                [*nest_lengths, (own[planes], Const(1))] if self.limits.has_planes else nest_lengths
            )

        return (
            lengths("t", all_tiles, "streamed", "t", "streamed_planes"),
            lengths("groups", ~all_tiles, "lanes", "lane_blocks", "stationary_planes"),
        )

    def _of_operation(self, m, nests):
        """Return by name the lengths and sizes of the product that the command selects."""
        values = {
            operation: self._values(operation, nests.of(operation.name))
            for operation in OPERATIONS.values()
            if nests.of(operation.name) is not None
        }
        widths = {}
        for one in values.values():
            widths |= {name: max(len(each), widths.get(name, 0)) for name, each in one.items()}
        own = {name: Signal(width, name=f"own_{name}") for name, width in widths.items()}
        with m.Switch(self.command.opcode):
            for operation, one in values.items():
                opcodes = opcodes_of(vector=self.limits.has_vector)
                with m.Case(*(n for n in opcodes if MULTIPLYING.get(n) == operation)):
                    m.d.comb += [own[name].eq(each) for name, each in one.items()]
        return own

    def _values(self, operation, nest):
        """Return by name the lengths and sizes of one operation."""
        command = self.command
        (product,) = operation.products

        def length(field, choices):
            value = command[f"nest_{field}"]
            return Mux(value == 0, choices[-1], value)[: choices[-1].bit_length()]

        sizes = zip(("streamed", "lanes", "contraction"), product.loops, strict=True)
        own = {name: command[axis] for name, axis in sizes}
        own |= {
            "t": length("t", nest.t_blocks),
            "groups": length("groups", nest.groups),
            "chunk": length("chunk", nest.chunk),
            "chunk_side": Const(nest.chunk_side),
        }
        own["lane_blocks"] = times(own["groups"], nest.lane_side)
        if self.limits.has_planes:
            own["streamed_planes"] = self._planes(product.streaming.tensor_class)
            own["stationary_planes"] = self._planes(product.stationary.tensor_class)
        return own

    def _planes(self, tensor_class):
        """Return the number of planes of an operand."""
        further = self.command[WIDTH_FIELDS[tensor_class]]
        if self.limits.has_choices:
            by_slot = self.command[SLOT_FIELDS[tensor_class]].any()
            further = Mux(by_slot, max(PLANE_CHOICES) - 1, further)
        return further + 1
