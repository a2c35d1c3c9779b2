"""Fetch commands and pass valid commands on, in order."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import ReadSignature
from diastole_hw.command.decoder import Decoder, bit_groups, layout_for
from diastole_hw.command.panels import Panels
from diastole_hw.data_registers import data_register
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import ADDRESS_BITS, COMMAND_BYTES, Opcode
from diastole_sim.spec.limits import Limits


class CommandFetch(wiring.Component):
    """Fetch the commands of a list in order, check each command, and offer valid commands at
    ``command``.

    ``start`` begins with command 0. A ``count`` of 0 is the error ``ZERO_SIZE`` of command 0, an
    unaligned ``address`` the error ``MISALIGNED`` of command 0.

    A command begins when it is accepted at ``command``, and is done with a pulse of ``done``. While
    a command runs, the next command is fetched: at most two commands are in flight, the fetched
    command included. The number of a command is its index modulo 2. When the last command is done,
    ``finished`` is high for 1 cycle.

    The first error stops the machine: nothing more is fetched or offered, and the error stays until
    ``clear``. A command that is refused or cannot be read becomes the error when all earlier
    commands are done. ``fault`` is an error at once, but only while ``busy``. In the same cycle
    ``fault`` has precedence over ``done``.

    In a machine with a vector unit, ``start`` begins with command ``first``. A ``first`` that is
    not below ``count`` is the error ``ZERO_SIZE`` of command 0, too. The command ``next`` is not
    offered. When all earlier commands are done, ``next`` ends the step. The following command is
    the target of ``next`` if the new step is before ``step_end``, else the command after ``next``.
    If the following command is below ``first`` or not below ``count``, the list is finished.

    Timing: 3 cycles from the last beat of a command to ``command.valid``, a function of registers;
    the payload is valid 2 cycles earlier. A command that keeps operands on chip takes as many
    cycles more as :class:`diastole_hw.command.panels.Panels`, and 1. The request of the first
    command is valid 3 cycles after ``start``. The request of the next command is valid in the cycle
    after the preceding command was accepted, if no earlier command is in flight, else after
    ``done``. A ``next`` ends the step 3 cycles after its last beat or in the cycle after the last
    ``done``, the later of both. ``finished`` follows 1 cycle later, the request of the following
    command 3 cycles later. Addresses are added in cycles of their own, and compared in later
    cycles.

    Parameters
    ----------
    limits : Limits
        Limits as in :class:`Decoder`.

    Members
    -------
    start : In(1)
        Pulse, ignored while ``busy`` and while there is an error.
    address, count : In(40), In(32)
        Address and number of the commands; must stay stable while ``busy``.
    clear : In(1)
        Stop and forget the error; the reader must be cleared, too.
    read, failed : Out(ReadSignature(data_width)), In(1)
        Read service. ``failed`` with a beat: the bus answered with an error.
    base, limit : In(40), In(40)
        Window that may be read, its limit exclusive; must stay stable while ``busy``.
    command : Out(stream of :func:`layout_for` the limits)
    number : Out(1)
        Number of the fetched or offered command.
    done : In(1)
        Pulse: the oldest accepted command is done, and its last write is answered. May arrive in
        the cycle after the command was accepted, or later.
    fault, fault_number : In(8), In(1)
        Error code from the buses, 0 for none, and the number of the failed command.
    busy, finished : Out(1)
    error_code, error_index : Out(8), Out(32)
    first : In(32)
        Index of the first command; must stay stable while ``busy``. This member and the following
        exist with ``limits.has_vector``.
    step, step_end : In(32)
        Training step, and the first step that is not done.
    step_set, step_next : Out(1), Out(32)
        Pulse at the end of a step: ``step`` must be ``step_next`` from the next cycle on.
    """

    read: wiring.PureInterface
    command: stream.Interface

    def __init__(self, limits: Limits):
        self.limits = limits
        steps = dict.fromkeys(("first", "step", "step_end"), In(32))
        steps |= {"step_set": Out(1), "step_next": Out(32)}
        super().__init__(
            {
                "start": In(1),
                "address": In(ADDRESS_BITS),
                "count": In(32),
                "clear": In(1),
                "read": Out(ReadSignature(limits.data_width)),
                "failed": In(1),
                "base": In(ADDRESS_BITS),
                "limit": In(ADDRESS_BITS),
                "command": Out(stream.Signature(layout_for(limits))),
                "number": Out(1),
                "done": In(1),
                "fault": In(8),
                "fault_number": In(1),
                "busy": Out(1),
                "finished": Out(1),
                "error_code": Out(8),
                "error_index": Out(32),
            }
            | (steps if limits.has_vector else {})
        )

    def elaborate(self, platform):
        m = Module()
        data_width = self.limits.data_width
        m.submodules.decoder = decoder = Decoder(self.limits)
        m.submodules.panels = panels = Panels(self.limits)
        m.d.comb += panels.command.eq(self.command.payload)
        state = Signal(State)
        following = Signal(State)  # state of the next cycle
        requesting = Signal()  # State.REQUEST and a command in the window, in 1 bit for many gates
        offers = Signal()  # State.OFFER, in 1 bit for many gates
        index = Signal(32)  # of the fetched or offered command, or of the error
        in_flight = Signal(2)  # number of accepted commands that are not done
        last = data_register()  # the command is the last, known long before it is offered
        beats = 8 * COMMAND_BYTES // data_width
        beat = data_register(range(beats))
        at = data_register(ADDRESS_BITS + 1)  # address of the command, then of the next
        lies_inside = Signal()  # the command is in the window
        inside = data_register()  # ``lies_inside`` of the previous cycle
        m.d.comb += [
            self.command.payload.eq(decoder.o),
            self.number.eq(index[0]),
            self.command.valid.eq(offers & ~decoder.wrong),
            self.read.requests.valid.eq(requesting),
            self.read.requests.p.addr.eq(at),
            self.read.requests.p.beats.eq(beats),
        ]
        m.d.comb += self.error_index.eq(Mux(self.error_code == 0, 0, index))
        self._keep(m, decoder, beat, state == State.REQUEST)
        begin, none = 0, self.count == 0
        if self.limits.has_vector:
            begin, none = self.first, self.first >= self.count
        code = Signal(8)  # of a fault that stops the machine in this cycle
        refusal = data_register(8)  # error code of the fetched command
        accepted = Signal()
        m.d.sync += [self.finished.eq(0), panels.start.eq(0)]
        m.d.comb += accepted.eq(self.command.valid & self.command.ready)
        m.d.sync += in_flight.eq(in_flight + accepted - self.done)
        m.d.sync += last.eq(index + 1 == self.count)
        m.d.comb += lies_inside.eq((at >= self.base) & (at + COMMAND_BYTES <= self.limit))
        m.d.sync += inside.eq(lies_inside)
        m.d.comb += following.eq(state)
        m.d.sync += [
            state.eq(following),
            requesting.eq((following == State.REQUEST) & lies_inside),
            offers.eq(following == State.OFFER),
        ]
        with m.Switch(state):
            # Wait for ``start``, check count and address.
            with m.Case(State.IDLE):
                with m.If(self.start & (self.error_code == 0)):
                    m.d.comb += following.eq(State.SEEK)
                    m.d.sync += [index.eq(begin), in_flight.eq(0)]
                    with m.If(none):
                        m.d.comb += code.eq(ErrorCode.ZERO_SIZE)
                    with m.Elif(self.address[: exact_log2(data_width // 8)].any()):
                        m.d.comb += code.eq(ErrorCode.MISALIGNED)
            # Compute the address of a command.
            with m.Case(State.SEEK):
                first = index << exact_log2(COMMAND_BYTES) if self.limits.has_vector else 0
                m.d.sync += at.eq(whole_beats(self.address + first, data_width // 8))
                m.d.comb += following.eq(State.LOOK)
            # Compare the address with the window.
            with m.Case(State.LOOK):
                m.d.comb += following.eq(State.REQUEST)
            # Request the beats of the command.
            with m.Case(State.REQUEST):
                m.d.sync += [beat.eq(0), refusal.eq(0)]
                with m.If(~inside):
                    m.d.comb += following.eq(State.REFUSED)
                    m.d.sync += refusal.eq(ErrorCode.WINDOW)
                with m.Elif(self.read.requests.ready):
                    m.d.comb += following.eq(State.BEATS)
                    m.d.sync += at.eq(whole_beats(at + COMMAND_BYTES, data_width // 8))
            # Receive the beats.
            with m.Case(State.BEATS):
                m.d.comb += self.read.beats.ready.eq(1)
                with m.If(self.read.beats.valid):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(self.failed):
                        m.d.sync += refusal.eq(ErrorCode.READ_RESPONSE)
                    with m.If(beat == beats - 1):
                        m.d.comb += following.eq(State.DECODE)
            # Wait for the decoder to check the bits.
            with m.Case(State.DECODE):
                m.d.comb += following.eq(State.CHECK)
            with m.Case(State.CHECK):  # the decoder's ``wrong`` is valid 1 cycle later
                m.d.comb += following.eq(State.OFFER)
                m.d.sync += panels.start.eq(1)
                with m.If(refusal != 0):
                    m.d.comb += following.eq(State.REFUSED)
                with m.Elif(decoder.o.nest_keep != 0):
                    m.d.comb += following.eq(State.PANELS)
                if self.limits.has_vector:
                    with m.Elif(decoder.o.opcode == Opcode.NEXT):
                        m.d.comb += following.eq(State.NEXT)
            # Wait until the blocks that the loop nest keeps are counted.
            with m.Case(State.PANELS):
                with m.If(panels.done):
                    m.d.comb += following.eq(State.REFUSED)
                    m.d.sync += refusal.eq(ErrorCode.NEST)
                    with m.If(panels.fits):
                        m.d.comb += following.eq(State.OFFER)
                self._refuse(m, following, refusal, decoder)
            # Report the error when all earlier commands are done.
            with m.Case(State.REFUSED):
                with m.If(in_flight == 0):
                    m.d.comb += code.eq(refusal)
            # Offer the command; the decoder's verdict is valid now.
            with m.Case(State.OFFER):
                self._refuse(m, following, refusal, decoder)
                with m.If(accepted):
                    m.d.comb += following.eq(State.WAIT)
                    m.d.sync += index.eq(index + 1)
                    with m.If(last):
                        m.d.comb += following.eq(State.LAST)
                    with m.Elif((in_flight == 0) | self.done):
                        m.d.comb += following.eq(State.REQUEST)
            # Two commands are in flight: wait for one to be done.
            with m.Case(State.WAIT):
                with m.If(self.done):
                    m.d.comb += following.eq(State.REQUEST)
            # The last command is accepted: wait until all are done.
            with m.Case(State.LAST):
                with m.If(self.done & (in_flight == 1)):
                    m.d.comb += following.eq(State.IDLE)
                    m.d.sync += self.finished.eq(1)
            if self.limits.has_vector:
                # Wait until no command is in flight, then end the step.
                with m.Case(State.NEXT):
                    alone = (in_flight == 0) & ~decoder.wrong
                    self._next(m, following, index, alone, decoder.o.target)
                    self._refuse(m, following, refusal, decoder)
        m.d.comb += self.busy.eq(state != State.IDLE)
        self._stop(m, following, index, in_flight, code)
        return m

    def _keep(self, m, decoder, beat, from_idle):
        """Keep the bits of the beats that the decoder examines."""
        payload, width = self.read.beats.payload, self.limits.data_width
        beats = 8 * COMMAND_BYTES // width
        groups = bit_groups(self.limits)
        far = [group for group in groups if group[0] // width != group[-1] // width]
        over = data_register(len(far))  # OR of bits in several beats
        m.d.comb += [decoder.bits[group[0]].eq(bit) for group, bit in zip(far, over, strict=True)]
        with m.If(from_idle):
            m.d.sync += over.eq(0)
        for number in range(beats):
            near = [group for group in groups if group not in far and group[0] // width == number]
            near_bits = data_register(len(near), name=f"near_bits{number}")
            m.d.comb += [
                decoder.bits[group[0]].eq(bit) for group, bit in zip(near, near_bits, strict=True)
            ]

            def any_of(group, number=number):
                return Cat(payload[at % width] for at in group if at // width == number).any()

            with m.If(self.read.beats.valid & self.read.beats.ready & (beat == number)):
                m.d.sync += near_bits.eq(Cat(any_of(group) for group in near))
                m.d.sync += over.eq(over | Cat(any_of(group) for group in far))

    @staticmethod
    def _refuse(m, following, refusal, decoder):
        """Refuse the current command if the decoder has found a fault."""
        with m.If(decoder.wrong):
            m.d.comb += following.eq(State.REFUSED)
            m.d.sync += refusal.eq(decoder.error_code)

    def _next(self, m, following, index, alone, target):
        """End the step as soon as no command is in flight."""
        goes_on = Signal()  # another step follows
        follower = Signal(33)
        m.d.comb += [
            self.step_next.eq(self.step + 1),
            goes_on.eq(self.step_next < self.step_end),
            follower.eq(Mux(goes_on, target, index + 1)),
        ]
        with m.If(alone & ~self.clear & (self.fault == 0)):
            m.d.comb += self.step_set.eq(1)
            m.d.comb += following.eq(State.SEEK)
            m.d.sync += index.eq(follower)
            with m.If((follower < self.first) | (follower >= self.count)):
                m.d.comb += following.eq(State.IDLE)
                m.d.sync += self.finished.eq(1)

    def _stop(self, m, following, index, in_flight, code):
        """Handle errors and ``clear``. Assignments of this method override the assignments of the
        states."""
        behind = Signal(signed(3))  # distance from ``index`` to the failed command
        other = index[0] ^ in_flight[0] ^ self.fault_number  # 0: the oldest command failed
        m.d.comb += behind.eq(in_flight - other)
        with m.If(self.busy & (self.fault != 0)):
            m.d.comb += code.eq(self.fault)
        with m.If(code != 0):
            m.d.comb += following.eq(State.IDLE)
            m.d.sync += [self.finished.eq(0), self.error_code.eq(code)]
            m.d.sync += index.eq(Mux(self.busy, index - Mux(self.fault != 0, behind, 0), 0))
        with m.If(self.clear):
            m.d.comb += following.eq(State.IDLE)
            m.d.sync += self.finished.eq(0)
            m.d.sync += self.error_code.eq(0)


class State(enum.Enum, shape=4):
    """States of :class:`CommandFetch`."""

    IDLE = 0
    REQUEST = 1
    BEATS = 2
    CHECK = 3
    OFFER = 4
    WAIT = 5
    PANELS = 6
    REFUSED = 7
    LAST = 8
    NEXT = 9
    SEEK = 10
    LOOK = 11
    DECODE = 12
