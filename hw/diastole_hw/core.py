"""The two engines under one dispatcher, with one bus between them."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature, WriteSignature
from diastole_hw.bus.share import share
from diastole_hw.command.decode import command_layout
from diastole_hw.command.dispatch import EVENTS, FLAGS, Dispatch
from diastole_hw.convert.converter import Converter
from diastole_hw.engine.engine import ProductEngine
from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port


class Core(wiring.Component):
    """Run commands, one after the other, to the last write response of each.

    Timing: as :class:`diastole_hw.command.dispatch.Dispatch` has it. The services belong to this
    unit while ``busy``.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    command : In(stream of command_layout())
    seed : In(32)
        Of the random bits; must not change while ``busy``, which is not checked.
    done, busy : Out(1)
    flags : Out(FLAGS)
    events : Out(EVENTS)
        As of :class:`diastole_hw.command.dispatch.Dispatch`.
    read : Out(ReadSignature)
    write : Out(WriteSignature)
    read_1, write_1
        Likewise, where there is a second port to memory.
    writer_idle : In(1)
        All that was given to ``write`` and ``write_1`` is in memory.
    """

    command: stream.Interface
    events: data.View
    flags: data.View
    read: wiring.PureInterface
    write: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "command": In(stream.Signature(command_layout())),
                "seed": In(unsigned(32)),
                "done": Out(1),
                "busy": Out(1),
                "flags": Out(FLAGS),
                "events": Out(EVENTS),
            }
            | per_port("read", Out(ReadSignature(plan.data_width)), plan.ports)
            | per_port("write", Out(WriteSignature(plan.data_width)), plan.ports)
            | {"writer_idle": In(1)}
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        dispatch = Dispatch(plan)
        engine = ProductEngine(plan)
        converter = Converter(
            numerics=plan.numerics,
            data_width=plan.data_width,
            max_col_blocks=plan.converter_blocks,
        )
        units = {"dispatch": dispatch, "engine": engine, "converter": converter}
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        wiring.connect(m, wiring.flipped(self.command), dispatch.command)
        wiring.connect(m, dispatch.product, engine.control)
        wiring.connect(m, dispatch.convert, converter.control)
        m.d.comb += [
            self.done.eq(dispatch.done),
            self.busy.eq(dispatch.busy),
            self.flags.eq(dispatch.flags),
            self.events.eq(dispatch.events),
            dispatch.writer_idle.eq(self.writer_idle),
            engine.writer_idle.eq(self.writer_idle),
            converter.seed.eq(self.seed),
        ]
        converting = dispatch.converting
        share(m, wiring.flipped(self.read), [(converting, converter.read), (None, engine.read)])
        share(m, wiring.flipped(self.write), [(converting, converter.write), (None, engine.write)])
        for name in ("read", "write"):  # the engine alone has the other ports
            outer, inner = (of_ports(unit, name, plan.ports)[1:] for unit in (self, engine))
            for mine, its in zip(outer, inner, strict=True):
                wiring.connect(m, wiring.flipped(mine), its)
        return m
