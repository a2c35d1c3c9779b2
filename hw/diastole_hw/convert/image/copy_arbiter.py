"""Merge the groups of two copies into a single sequence for the writer, in the order of
completion."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from diastole_hw.convert.image.copy_port import image_group_layout
from diastole_hw.convert.image.exponents import field_byte_layout
from diastole_hw.convert.image.pack import packed_layout
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

_GROUPS_AHEAD = 4  # groups begun in the lanes but not complete; groups from here to the writer


class GroupsSignature(wiring.Signature):
    """Carry the groups of an image, seen from the source: descriptions of groups, bytes of exponent
    fields, and beats of elements as :func:`packed_layout` has them."""

    def __init__(self, data_width: int, planes: int = 1):
        super().__init__(
            {
                "group": Out(stream.Signature(image_group_layout())),
                "exponents": Out(stream.Signature(field_byte_layout())),
                "elements": Out(stream.Signature(packed_layout(data_width, planes))),
            }
        )


class CopyArbiter(wiring.Component):
    """Arbitrate between the groups of two copies. A group of the first copy goes on as soon as all
    its elements have come. A group of the second copy goes on if no group of the first copy is
    ready.

    A strip of the second copy is described once, as its last group. The output repeats the
    description for every group of the strip. The last strip of a tensor waits for all groups of the
    first copy.

    Elements are buffered: a group goes on without a gap while elements of both copies come. For
    every copy the buffers hold two of the largest groups, and the exponents of one group. No more
    groups of the first copy may be under way.

    Timing: 2 cycles from the last exponent of a group to the first exponent of the next group,
    besides waiting for elements; 1 byte and 1 beat per cycle. Elements are output 2 cycles later at
    the earliest.

    Parameters
    ----------
    sizes : ConverterSizes
        Sizes with a class of two copies.

    Members
    -------
    first, second : In(:class:`GroupsSignature`)
        Groups of the first copy; strips, in which ``exponents.end`` marks the last group.
    freed : Out(1)
        A pulse: the last element of a group of the first copy goes on.
    o : Out(:class:`GroupsSignature`)
        A group comes before its bytes; ``exponents.end`` is meaningless.
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        groups = GroupsSignature(sizes.data_width, self.sizes.max_planes)
        super().__init__(
            {"first": In(groups), "second": In(groups), "freed": Out(1), "o": Out(groups)}
        )

    def elaborate(self, platform):
        m = Module()
        copy = Signal()
        accepted = Signal()  # the description of a group of this copy is accepted
        group, exponents, elements, complete = self._keep(m, "first", accepted & ~copy)
        strip, exponents_t, elements_t, complete_t = self._keep(m, "second", accepted & copy)
        order = StreamFifo(shape=1, depth=_GROUPS_AHEAD)  # copies of the groups
        m.submodules.order = order
        last = strip.p.copy_end & strip.p.last_row & strip.p.last_col
        offered = Signal()
        offered_t = Signal()
        m.d.comb += [
            offered.eq(group.valid & exponents.valid & complete),
            offered_t.eq(strip.valid & exponents_t.valid & complete_t),
        ]
        with m.FSM():
            with m.State("choose"):  # choose the copy: the first copy has priority
                m.d.sync += copy.eq(~offered)
                with m.If(offered | (offered_t & ~(last & group.valid))):
                    m.next = "group"
            with m.State("group"):  # output the description of the group
                m.d.comb += self.o.group.valid.eq(order.i.ready)
                with m.If(self.o.group.valid & self.o.group.ready):
                    m.d.comb += accepted.eq(1)
                    m.next = "exponents"
            with m.State("exponents"):  # output the bytes of the exponent field
                self._give_exponents(m, copy, exponents, exponents_t)
                with m.If(self.o.exponents.valid & self.o.exponents.ready):
                    with m.If(self.o.exponents.p.last):
                        m.next = "choose"
        end = exponents_t.p.end  # the group is the strip's last
        m.d.comb += [
            self.o.group.payload.eq(Mux(copy, strip.payload, group.payload)),
            group.ready.eq(accepted & ~copy),
            strip.ready.eq(accepted & copy & end),
            order.i.payload.eq(copy),
            order.i.valid.eq(accepted),
        ]
        with m.If(copy):
            m.d.comb += self.o.group.p.line_end.eq(end)
            m.d.comb += self.o.group.p.copy_end.eq(strip.p.copy_end & end)
        self._give_elements(m, order.o, elements, elements_t)
        return m

    def _keep(self, m, name, accepted):
        """Buffer the groups, exponents and elements of a copy. Return the buffers' outputs, and
        whether all elements of the next group have come."""
        sizes, port = self.sizes, getattr(self, name)
        entries = max(sizes.by_class(sizes.exponent_entries))
        beats = 2 * max(sizes.by_class(sizes.element_beats))
        groups = StreamFifo(shape=image_group_layout(), depth=_GROUPS_AHEAD)
        exponents = StreamFifo(shape=field_byte_layout(), depth=entries)
        elements = StreamFifo(shape=port.elements.p.shape(), depth=beats)
        m.submodules[f"{name}_groups"] = groups
        m.submodules[f"{name}_exponents"] = exponents
        m.submodules[f"{name}_elements"] = elements
        connect(m, flipped(port.group), groups.i)
        connect(m, flipped(port.exponents), exponents.i)
        connect(m, flipped(port.elements), elements.i)
        complete = Signal(range(beats + 1), name=f"{name}_complete")  # groups with all elements
        came = elements.i.valid & elements.i.ready & elements.i.p.last
        m.d.sync += complete.eq(complete + came - accepted)
        return groups.o, exponents.o, elements.o, complete.any()

    def _give_exponents(self, m, copy, first, second):
        out = self.o.exponents
        m.d.comb += [
            out.payload.eq(Mux(copy, second.payload, first.payload)),
            out.valid.eq(Mux(copy, second.valid, first.valid)),
            first.ready.eq(~copy & out.ready),
            second.ready.eq(copy & out.ready),
        ]

    def _give_elements(self, m, order, elements, elements_t):
        """Output the elements in the order of the groups."""
        out = self.o.elements
        m.d.comb += [
            out.payload.eq(Mux(order.payload, elements_t.payload, elements.payload)),
            out.valid.eq(order.valid & Mux(order.payload, elements_t.valid, elements.valid)),
            elements.ready.eq(order.valid & ~order.payload & out.ready),
            elements_t.ready.eq(order.valid & order.payload & out.ready),
            order.ready.eq(out.valid & out.ready & out.p.last),
            self.freed.eq(order.ready & ~order.payload),
        ]
