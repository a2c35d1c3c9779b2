"""Share one read service among several units: arbitrate requests and route beats."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import (
    OWNERS,
    ReadSignature,
    owned_beat_layout,
    owned_request_layout,
)
from diastole_hw.choice import one_hot_select
from diastole_sim.spec.require import require_int


class ReadShare(wiring.Component):
    """Let several units read over one service. The unit with the lowest number has priority.

    A request carries the number of its unit. The beats carry it too and go to the unit. A unit that
    does not accept its beats blocks all units: a unit must accept its beats without waiting for
    another unit.

    Timing: all combinational; no cycle is lost. An offer at ``requests`` stays until it is
    accepted. The ``ready`` of a unit does not depend on the unit's own ``valid``.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    units : int
        Number of units (2 to 4).

    Members
    -------
    units_read : In(ReadSignature(data_width)), an array of ``units``
        Readers. An offered request must stay until it is accepted.
    commands : In(1), an array of ``units``
        Number, among the two commands in flight, of the command that offers the request of the
        unit.
    requests : Out(stream of owned_request_layout())
    beats : In(stream of owned_beat_layout(data_width))
        Beats of every request, in the order of the requests.

    ValueError if ``units`` is out of range.
    """

    units_read: list[wiring.PureInterface]
    requests: stream.Interface
    beats: stream.Interface

    def __init__(self, *, data_width: int, units: int):
        self.data_width = data_width
        self.units = require_int("units", units, 2, OWNERS)
        super().__init__(
            {
                "units_read": In(ReadSignature(data_width)).array(units),
                "commands": In(1).array(units),
                "requests": Out(stream.Signature(owned_request_layout())),
                "beats": In(stream.Signature(owned_beat_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        out = self.requests
        requesting = Signal(self.units)
        waiting = Signal()  # a request is offered, but not accepted
        offered = Signal(self.units)  # unit of the offered request, one-hot
        selected = Signal(self.units)
        m.d.comb += [
            requesting.eq(Cat(unit.requests.valid for unit in self.units_read)),
            out.valid.eq(requesting.any()),
        ]
        m.d.sync += [waiting.eq(out.valid & ~out.ready), offered.eq(selected)]
        requested = []
        for number, unit in enumerate(self.units_read):
            granted = Signal(name=f"granted_{number}")  # the unit may request
            m.d.comb += [
                granted.eq(Mux(waiting, offered[number], ~requesting[:number].any())),
                selected[number].eq(granted & requesting[number]),
                unit.requests.ready.eq(granted & out.ready),
            ]
            requested.append(Signal(out.p.shape(), name=f"requested_{number}"))
            m.d.comb += [
                requested[-1].addr.eq(unit.requests.p.addr),
                requested[-1].beats.eq(unit.requests.p.beats),
                requested[-1].owner_tag.command.eq(self.commands[number]),
                requested[-1].owner_tag.owner.eq(number),
            ]
        m.d.comb += out.payload.eq(
            one_hot_select([each.as_value() for each in requested], selected)
        )
        for number, unit in enumerate(self.units_read):
            m.d.comb += unit.beats.payload.eq(self.beats.p.data)
            m.d.comb += unit.beats.valid.eq(self.beats.valid & self.beats.p.units[number])
        takes = Cat(unit.beats.ready for unit in self.units_read)
        m.d.comb += self.beats.ready.eq((self.beats.p.units & takes).any())
        for_one = self.beats.p.units.any()
        m.d.sync += Assert(~self.beats.valid | for_one, "a beat that is for no unit")
        return m
