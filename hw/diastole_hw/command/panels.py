"""Whether what a nest keeps on chip fits: counted, before a command starts."""

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
from diastole_sim.spec.limits import CHOSEN_PLANES, Limits
from diastole_sim.spec.operations import OPERATIONS


class Panels(wiring.Component):
    """Check what the nest of a command keeps, as
    :meth:`diastole_sim.spec.nest.NestLimits.problem` does.

    What stays of an operand, in blocks of a bank, is a product of lengths: slices of a chunk, tiles
    or groups, chunks, and where all of them stay, of these; of several planes also that. It is
    counted length by length: what has been found is added to itself as often as the next length
    says, until it is beyond the room.

    Timing: an operand takes 3 cycles for each of its lengths, and one for each addition, fewer if
    it does not fit; ``done`` comes 2 cycles after the last.

    Parameters
    ----------
    limits : Limits
        They must say their ``nests``.

    Members
    -------
    start : In(1)
        A pulse.
    command : In(layout_for(limits))
        A command that is in order but for what it keeps; must hold from ``start`` to ``done``.
    done : Out(1)
        Until the next ``start``.
    fits : Out(1)
        With ``done``; means nothing where nothing is kept.
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
        rooms = nests.forward.stream_blocks, nests.forward.held_blocks
        operands = self._lengths(m, nests)
        last = len(operands[0]) - 1
        held = data_register()  # the operand that is counted
        at = data_register(range(last + 1))  # the length at hand
        loads = data_register()
        ended = Signal(init=1)
        step = data_register(max(len(step) for lengths in operands for _, step in lengths))
        left = data_register(signed(max(EXTENT_BITS, len(step)) + 2))  # of the length, below 0
        begins = data_register()  # 1 is missing in it
        found = data_register(range(3 * max(rooms) + 1))
        beyond = data_register()  # what was found is, once it was
        all_found = data_register()
        factor = data_register(found.shape())  # found before this length
        after = Signal.like(left)
        m.d.sync += beyond.eq(beyond | (found > Mux(held, rooms[1], rooms[0])))
        m.d.comb += [after.eq(left + step + begins), self.done.eq(ended & ~self.start)]
        with m.If(beyond | all_found):
            m.d.sync += [ended.eq(1), self.fits.eq(~beyond)]
        with m.Elif(loads):
            m.d.sync += [loads.eq(0), begins.eq(1), factor.eq(found)]
            with m.Switch(Cat(at, held)):
                for number, lengths in enumerate(operands):
                    for n, (size, each) in enumerate(lengths):
                        with m.Case(number << len(at) | n):
                            ones = Const(-1, signed(len(left) - len(size)))
                            m.d.sync += [left.eq(Cat(~size, ones)), step.eq(each)]
        with m.Elif(begins | (left < 0)):
            m.d.sync += [left.eq(after), begins.eq(0)]
            with m.If(~begins):
                m.d.sync += found.eq(found + factor)
        with m.Elif(at != last):
            m.d.sync += [at.eq(at + 1), loads.eq(1)]
        with m.Elif(~held & keeps[1]):
            m.d.sync += [held.eq(1), at.eq(0), loads.eq(1)]
            m.d.sync += found.eq(nests.forward.pass_blocks)
        with m.Else():
            m.d.sync += all_found.eq(1)
        with m.If(self.start):
            m.d.sync += [ended.eq(0), held.eq(~keeps[0]), at.eq(0), loads.eq(1)]
            m.d.sync += [all_found.eq(0), beyond.eq(0)]
            m.d.sync += found.eq(Mux(keeps[0], 1, nests.forward.pass_blocks))
        return m

    def _lengths(self, m, nests):
        """Those of what streams and of what is held: pairs, how long it is and how much of it goes
        at once, both at least 1; 0 for a length that is one step."""
        own = self._of_operation(m, nests)
        command, low = self.command, (self.limits.block - 1).bit_length()
        all_tiles = command.nest_outer

        def lengths(count, whole, size, blocks, planes):
            found = [
                (own["chunk"], own["chunk_side"]),
                (own[count], Const(1)),
                (own["contraction"], own["chunk"] << low),
                (Mux(whole, own[size], 0), own[blocks] << low),
            ]
            return [*found, (own[planes], Const(1))] if self.limits.has_planes else found

        return (
            lengths("t", all_tiles, "streamed", "t", "streamed_planes"),
            lengths("groups", ~all_tiles, "lanes", "lane_blocks", "held_planes"),
        )

    def _of_operation(self, m, nests):
        """By name, lengths and sizes of the product that the command is."""
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

    def _values(self, operation, taken):
        """They, of one operation."""
        command = self.command
        (product,) = operation.products

        def length(field, accepted):
            given = command[f"nest_{field}"]
            return Mux(given == 0, accepted[-1], given)[: accepted[-1].bit_length()]

        sizes = zip(("streamed", "lanes", "contraction"), product.loops, strict=True)
        own = {name: command[axis] for name, axis in sizes}
        own |= {
            "t": length("t", taken.t_blocks),
            "groups": length("groups", taken.groups),
            "chunk": length("chunk", taken.chunk),
            "chunk_side": Const(taken.chunk_side),
        }
        own["lane_blocks"] = times(own["groups"], taken.lane_side)
        if self.limits.has_planes:
            own["streamed_planes"] = self._planes(product.streamed.tensor_class)
            own["held_planes"] = self._planes(product.held.tensor_class)
        return own

    def _planes(self, tensor_class):
        """Of an operand."""
        further = self.command[WIDTH_FIELDS[tensor_class]]
        if self.limits.has_choices:
            by_slot = self.command[SLOT_FIELDS[tensor_class]].any()
            further = Mux(by_slot, max(CHOSEN_PLANES) - 1, further)
        return further + 1
