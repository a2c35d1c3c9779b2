"""Registers with and without a reset, in simulation and in the Verilog that is emitted."""

from amaranth.back import verilog
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register, delayed_record, one_later
from support.bench import simulation

RECORD = data.StructLayout({"valid": 1, "value": 8, "place": 3})


class Registers(wiring.Component):
    """One of each kind, all one cycle behind their inputs."""

    def __init__(self):
        super().__init__(
            {
                "value": In(8),
                "record": In(RECORD),
                "kept": Out(8),
                "shown": Out(8),
                "value_later": Out(8),
                "record_later": Out(RECORD),
            }
        )

    def elaborate(self, platform):
        m = Module()
        value = data_register(8)
        m.d.sync += value.eq(self.value)
        m.d.comb += self.kept.eq(value)
        assert value.name == "value"
        assert data_register(name="other").name == "other"
        m.d.sync += data_output(m, self.shown, "showing").eq(self.value)
        later = one_later(m, self.value, "value_after")
        assert later.name == "value_after"
        m.d.comb += self.value_later.eq(later)
        record = delayed_record(m, self.record, "record_after", control=("valid",))
        m.d.comb += self.record_later.eq(record)
        return m


async def test_a_reset_reaches_control_only():
    dut, reset = Registers(), Signal()
    ctx = await simulation(ResetInserter(reset)(dut))
    for cycle, given in enumerate([0, 0, 1, 0, 1]):
        ctx.set(reset, given)
        ctx.set(dut.value, 100 + cycle)
        ctx.set(dut.record, {"valid": 1, "value": 50 + cycle, "place": cycle})
        await ctx.tick()
        shown = [ctx.get(port) for port in (dut.kept, dut.shown, dut.value_later)]
        assert shown == [100 + cycle] * 3
        record = ctx.get(dut.record_later)
        assert (record.value, record.place) == (50 + cycle, cycle)
        assert record.valid == (not given)


def test_no_gates_for_a_reset():
    """In the Verilog the reset is of the one bit of control."""
    text = verilog.convert(Registers(), emit_src=False)
    assert text.count("if (rst)") == 1
