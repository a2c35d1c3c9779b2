"""Share one set of float lanes between the sums of both directions, with queues for the floats."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.maxima import drain_entries
from diastole_hw.memory.port_sums import read_sum
from diastole_hw.plan.plan import Plan
from diastole_hw.store.float_lanes import SCALE_BITS, FloatLanes
from diastole_hw.store.transpose_tile import columns_layout
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.sizes.queues import FLOAT_WORDS


def floats_layout(plan: Plan, *, north: bool) -> data.ArrayLayout:
    """Return the layout of a word of floats of a direction: V_d vectors of B floats."""
    return data.ArrayLayout(unsigned(32), plan.drain_vectors(north=north) * plan.block)


class DrainedSignature(wiring.Signature):
    """Float lanes, seen from the drain of a direction.

    Parameters: ``plan``; ``north``, the direction.

    Members
    -------
    requested : Out(V_d)
        Vectors of the requested word, 0 without a request.
    transposed : Out(1)
        The word is a column, for ``columns``; exists if this direction has columns.
    last_part : Out(range(plan.word_parts))
        Number of the last requested part of the word; 0 bits wide if a word has a single part.
    may : In(1)
        A requested word would be read in this cycle. ``may`` does not depend on ``requested``.
    granted : In(1)
        The word is read in this cycle. The following members belong to the word, and are valid in
        the next cycle.
    sums : Out(array of V_d * B times read_sum(plan))
        Zeros in the cycle after a cycle without ``granted``, and in vectors that were not
        requested.
    poison : Out(V_d * B)
        Zeros as in ``sums``; exists where sums may be poisoned.
    stream, stationary : Out(8), Out(array of unsigned(8))
        Exponents of the vector, and of the stationary operand, for as many lanes each. Valid with
        ``sums``, and until the next word is granted in any direction.
    offset : Out(signed(SCALE_BITS))
        Number to subtract from the sum of the exponents, valid with ``sums``.
    rows : In(stream of floats_layout(plan, north=north))
        Words that are not columns.
    columns : In(columns_layout(plan))
        Words that are columns, without back-pressure; exists if this direction has columns.
    full : In(1)
        A word must wait until a word leaves ``rows``.
    inside : In(1)
        Words have been read that have not left ``rows``; exists in a machine with a vector unit.
    """

    def __init__(self, plan: Plan, *, north: bool):
        floats = floats_layout(plan, north=north)
        lanes, stationary = (
            floats.length,
            drain_entries(plan, "north" if north else "east")["stationary"],
        )
        poison = {"poison": Out(lanes)} if plan.poison else {}
        transposed = {}
        if north and plan.fused:
            transposed = {"transposed": Out(1), "columns": In(columns_layout(plan))}
        inside = {} if plan.vector is None else {"inside": In(1)}
        super().__init__(
            {
                "requested": Out(plan.drain_vectors(north=north)),
                "may": In(1),
                "granted": In(1),
                "sums": Out(data.ArrayLayout(read_sum(plan), lanes)),
                "stream": Out(8),
                "stationary": Out(data.ArrayLayout(unsigned(8), stationary.count)),
                "offset": Out(signed(SCALE_BITS)),
                "rows": In(stream.Signature(floats)),
                "full": In(1),
            }
            | poison
            | transposed
            | inside
            | {"last_part": Out(range(plan.word_parts))}
        )


class FloatPipe(wiring.Component):
    """Convert to floats the words of sums that the drains of all directions read. The unit converts
    1 word per cycle. A word whose floats are several beats of all buses takes as many cycles as it
    has parts.

    A word that has been read never waits. A word is read when the queue of its direction has a free
    entry, and a column when its drain also has a free place. So no direction waits until the data
    of the second direction are accepted.

    Timing: a requested word is granted in the same cycle, north before east; ``granted`` is a
    function of the requests and of registers. A column is output 1 + ``ToFloat.latency`` cycles
    later, a word of rows 2 cycles after that. Where words have parts, outputs and the next grant
    are ``last_part`` cycles later.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    east, north : In(DrainedSignature(plan, north=...))
        Drains of ``plan.directions``.
    overflow : Out(1)
        High for 1 cycle for every part of a word with a result that is too large.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        sides = {
            name: In(DrainedSignature(plan, north=name == "north")) for name in plan.directions
        }
        super().__init__(sides | {"overflow": Out(1)})

    @property
    def sides(self) -> list:
        """Drains in order of priority."""
        return [getattr(self, name) for name in reversed(self.plan.directions)]

    def elaborate(self, platform):
        m = Module()
        plan, sides = self.plan, self.sides
        parts = plan.word_parts
        lanes = max(len(side.sums) for side in sides) // parts
        # Number of lanes that share an exponent of the stationary operand, in any direction.
        shared = min(lanes, *(len(side.sums) // len(side.stationary) for side in sides))
        m.submodules.lanes = floats = FloatLanes(
            lanes=lanes,
            sum_bits=plan.accumulator_bits,
            bounds=lanes // shared,
            sinks=len(sides) + plan.fused,
            poisonable=plan.poison,
            mantissa=plan.mantissa,
            parts=parts,
            exponent_delay=plan.output_register,
        )
        left = Signal(range(parts))  # parts of a word that follow the part of the next cycle
        sinks = Cat(self._grant(m, floats, left))
        part = floats.part if parts > 1 else Const(0, 1)
        self._exponents(m, floats, shared, part)
        if parts > 1:
            sinks = self._with_last_part(m, floats, sinks, left)
        m.d.comb += [
            floats.sink.eq(sinks),
            self.overflow.eq(floats.overflow),
        ]
        sums = Cat(
            reduce(or_, (side.sums[n].as_unsigned() for side in sides if n < len(side.sums)))
            for n in range(lanes * parts)
        )
        m.d.comb += Value.cast(floats.sums).eq(self._apart(m, sums, "sums", part))
        if plan.poison:
            poison = reduce(or_, (side.poison for side in sides))
            m.d.comb += floats.poison.eq(self._apart(m, poison, "poison", part))
        return m

    def _apart(self, m, word, name, part):
        """Return the parts of a word, one per cycle. ``word`` is zero except in the cycle of the
        first part."""
        parts = self.plan.word_parts
        if parts == 1:
            return word
        size = len(word) // parts
        first = part == 0
        following = data_register(len(word) - size, name=f"{name}_following")
        m.d.sync += following.eq(word[size:] | Mux(first, 0, following[size:]))
        return Mux(first, word[:size], following[:size])

    def _with_last_part(self, m, floats, sinks, left):
        """Count the parts of a word. Return its destinations, in the cycle before the last part is
        output."""
        granted = Cat(side.granted for side in self.sides).any()
        last = reduce(or_, (Mux(side.granted, side.last_part, 0) for side in self.sides))
        of_word = Signal(len(sinks))
        part = data_register(left.shape(), name="part")
        m.d.comb += floats.part.eq(part)
        with m.If(granted):
            m.d.sync += [left.eq(last), part.eq(0), of_word.eq(sinks)]
        with m.Else():
            m.d.sync += [left.eq(left - left.any()), part.eq(part + 1)]
        return Mux(left == 1, of_word, Mux(last == 0, sinks, 0))

    def _together(self, m, floats):
        """Return the word whose last part the lanes output. Parts beyond the last part are
        undefined."""
        shown, number = Value.cast(floats.o.floats), floats.o.part
        parts = []
        for part in range(self.plan.word_parts - 1):
            register = data_register(len(shown), name=f"floats_{part}")
            with m.If(number == part):
                m.d.sync += register.eq(shown)
            parts.append(Mux(number == part, shown, register))
        return Cat(*parts, shown)

    def _grant(self, m, floats, left):
        """Grant a word per cycle. Return the destinations of its floats, a bit per destination."""
        sinks, before = [], Const(0, 1)
        word = self._together(m, floats)
        if len(left):
            before = left.any()
        for side, name in zip(self.sides, reversed(self.plan.directions), strict=True):
            queue = StreamFifo(side.rows.payload.shape(), FLOAT_WORDS)
            space = Credit(most=FLOAT_WORDS)
            m.submodules[f"{name}_queue"] = queue
            m.submodules[f"{name}_space"] = space
            transposed = getattr(side, "transposed", Const(0, 1))
            to_rows = Signal(name=f"{name}_to_rows")
            # Grants arrive late: they are counted in the next cycle, and ``full`` is a register.
            counted, full = Signal(name=f"{name}_counted"), Signal(name=f"{name}_full")
            count = space.count
            all_but_one = Mux(counted, count == FLOAT_WORDS - 2, count == FLOAT_WORDS - 1)
            whole = Mux(counted, count == FLOAT_WORDS - 1, count == FLOAT_WORDS)
            m.d.sync += [
                counted.eq(to_rows),
                full.eq(Mux(to_rows == space.give, whole, to_rows & all_but_one)),
            ]
            m.d.comb += [
                side.full.eq(full),
                side.may.eq(~side.full & ~before),
                side.granted.eq(side.requested.any() & side.may),
                to_rows.eq(side.granted & ~transposed),
                space.take.eq(counted),
                space.give.eq(side.rows.valid & side.rows.ready),
                queue.i.valid.eq(floats.o.to[len(sinks)]),
                Value.cast(queue.i.payload).eq(word),
            ]
            wiring.connect(m, queue.o, wiring.flipped(side.rows))
            if self.plan.vector is not None:
                m.d.comb += side.inside.eq(counted | ~space.empty)
            m.d.sync += Assert(~queue.i.valid | queue.i.ready, f"no room for words of {name}")
            sinks.append(to_rows)
            if hasattr(side, "columns"):
                to_columns = Signal(name=f"{name}_to_columns")
                m.d.comb += [
                    to_columns.eq(side.granted & transposed),
                    side.columns.valid.eq(floats.o.to[len(sinks)]),
                    Value.cast(side.columns.floats).eq(word),
                ]
                sinks.append(to_columns)
            before = before | (side.requested.any() & ~side.full)
        return sinks

    def _exponents(self, m, floats, shared, part):
        """Select the exponents of the direction whose sums are valid."""
        sides, parts = self.sides, self.plan.word_parts
        second = data_register()  # the last word read is of the direction with lower priority
        granted = sides[-1].granted
        if parts == 1:
            m.d.sync += second.eq(granted)
        else:  # hold until the next word is granted
            m.d.sync += second.eq((second & ~sides[0].granted) | granted)

        def of_either(values):
            return values[0] if len(values) == 1 else Mux(second, values[1], values[0])

        offset = of_either([side.offset for side in sides])
        if self.plan.output_register:  # looked-up maxima arrive 1 cycle after the sums
            direction, second = second, data_register(name="late_second")
            now, offset = offset, data_register(signed(SCALE_BITS), name="late_offset")
            m.d.sync += [second.eq(direction), offset.eq(now)]
            if parts > 1:
                number, part = part, data_register(range(parts), name="late_part")
                m.d.sync += part.eq(number)
        m.d.comb += [
            floats.stream.eq(of_either([side.stream for side in sides])),
            floats.offset.eq(offset),
        ]
        for number, stationary in enumerate(floats.stationary):
            by_part = [
                of_either([_stationary(side, first + number * shared) for side in sides])
                for first in range(0, parts * floats.lanes, floats.lanes)
            ]
            one_for_all = parts == 1 or len(sides[0].stationary) == 1
            m.d.comb += stationary.eq(by_part[0] if one_for_all else Array(by_part)[part])


def _stationary(side, lane):
    """Return the exponent of the stationary operand for a lane; undefined beyond the direction's
    lanes."""
    own = min(lane, len(side.sums) - 1)
    return side.stationary[own * len(side.stationary) // len(side.sums)]
