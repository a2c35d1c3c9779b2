"""Repeat the groups of an image with planes: once for every plane, always with the same
exponents."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.image.copy_port import image_group_layout
from diastole_hw.convert.image.pack import packed_layout
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.queues import SHORT_QUEUE

PLANE_BITS_OF_NUMBER = 2


def plane_group_layout() -> data.StructLayout:
    """Return the layout of a group with the number of a plane."""
    return data.StructLayout(
        image_group_layout().members | {"plane": unsigned(PLANE_BITS_OF_NUMBER), "last_plane": 1}
    )


class PlaneRepeater(wiring.Component):
    """Output every group once for every plane: the description, the exponents, the elements of the
    plane.

    The unit buffers the data of later planes, for a single group.

    Timing: combinational for the first plane. Beats of later planes come 1 per cycle. A beat comes
    at the earliest 2 cycles after the corresponding beat of the previous plane.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    planes : int
        Largest number of planes (2 to 4).
    exponent_beats, element_beats : int
        Most beats of a group.

    Members
    -------
    planes_less_1 : In(2)
        Number of planes, less 1; must hold while a group is in the unit.
    group : In(stream of image_group_layout())
    exponents : In(stream of packed_layout(data_width))
    elements : In(stream of packed_layout(data_width, planes))
        ``last`` marks the last beat of a group.
    group_o : Out(stream of plane_group_layout())
    exponents_o, elements_o : Out(stream of packed_layout(data_width))
    """

    group: stream.Interface
    exponents: stream.Interface
    elements: stream.Interface
    group_o: stream.Interface
    exponents_o: stream.Interface
    elements_o: stream.Interface

    def __init__(self, *, data_width: int, planes: int, exponent_beats: int, element_beats: int):
        require_int("planes", planes, 2, 4)
        self.data_width, self.planes = data_width, planes
        self.exponent_beats, self.element_beats = exponent_beats, element_beats
        beat = packed_layout(data_width)
        super().__init__(
            {
                "planes_less_1": In(PLANE_BITS_OF_NUMBER),
                "group": In(stream.Signature(image_group_layout())),
                "exponents": In(stream.Signature(beat)),
                "elements": In(stream.Signature(packed_layout(data_width, planes))),
                "group_o": Out(stream.Signature(plane_group_layout())),
                "exponents_o": Out(stream.Signature(beat)),
                "elements_o": Out(stream.Signature(beat)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plane = self._counter(m, "plane", self.group_o, self.group_o.valid)
        m.d.comb += [
            *(self.group_o.p[name].eq(value) for name, value in self._fields()),
            self.group_o.p.plane.eq(plane),
            self.group_o.p.last_plane.eq(plane == self.planes_less_1),
            self.group_o.valid.eq(self.group.valid),
            self.group.ready.eq(self.group_o.ready & (plane == self.planes_less_1)),
        ]
        width = self.data_width
        self._repeat(m, "exponents", self.exponent_beats, lambda beat: beat)
        # The beat of the current plane is lowest. Beats of later planes move down.
        self._repeat(m, "elements", self.element_beats, lambda beat: beat[width:])
        return m

    def _fields(self):
        return ((name, self.group.p[name]) for name in image_group_layout().members)

    def _counter(self, m, name, port, ends):
        """Return the number of the current plane of a stream. A plane ends with an item accepted
        while ``ends``."""
        plane = Signal(PLANE_BITS_OF_NUMBER, name=name)
        with m.If(port.valid & port.ready & ends):
            m.d.sync += plane.eq(Mux(plane == self.planes_less_1, 0, plane + 1))
        return plane

    def _repeat(self, m, name, beats, rest):
        """Output the beats of a group, then repeat the ``rest`` of every beat for the later
        planes."""
        source, out = getattr(self, name), getattr(self, f"{name}_o")
        wide = len(source.p.beat)
        layout = data.StructLayout({"beat": unsigned(len(rest(source.p.beat))), "last": 1})
        # Beats are wide: use a Ram.
        again = StreamFifo(shape=layout, depth=max(beats, SHORT_QUEUE) + 1)
        m.submodules[f"{name}_again"] = again
        plane = self._counter(m, f"{name}_plane", out, out.p.last)
        first = Signal(name=f"{name}_first")
        more = Signal(name=f"{name}_more")  # planes follow
        shown = Signal(wide, name=f"{name}_shown")
        m.d.comb += [
            first.eq(plane == 0),
            more.eq(plane != self.planes_less_1),
            shown.eq(Mux(first, source.p.beat, again.o.p.beat)),
            out.p.beat.eq(shown),
            out.p.last.eq(Mux(first, source.p.last, again.o.p.last)),
            out.valid.eq(Mux(first, source.valid, again.o.valid) & (~more | again.i.ready)),
            source.ready.eq(first & out.valid & out.ready),
            again.o.ready.eq(~first & out.valid & out.ready),
            again.i.valid.eq(more & out.valid & out.ready),
            Cat(again.i.p.beat, again.i.p.last).eq(Cat(rest(shown), out.p.last)),
        ]
