# amaranth: UnusedElaboratable=no
"""Sizes that are chosen by the class of a tensor."""

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.by_class import by_class, of_vectors
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, simulation
from support.tiles import machine


class Chooser(wiring.Component):
    """Both ways to choose by class."""

    def __init__(self, sizes, values):
        self.sizes, self.values = sizes, values
        super().__init__({"cls": In(2), "of_class": Out(8), "of_vector": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.of_class.eq(by_class(m, self.cls, self.values, "all"))
        m.d.comb += self.of_vector.eq(of_vectors(m, self.cls, self.sizes, self.values, "some"))
        keep = Signal()
        m.d.sync += keep.eq(~keep)  # the bench has a clock
        return m


@pytest.mark.parametrize("values", [(7, 7, 7), (1, 200, 3), (0, 0, 5)])
async def test_values_by_class(values):
    numerics, data_width = machine("vectors")  # x and w in vectors, dy not
    dut = design(Chooser, ConverterSizes(numerics=numerics, data_width=data_width), values)
    ctx = await simulation(dut)
    for cls, value in enumerate(values):
        ctx.set(dut.cls, cls)
        await ctx.tick()
        assert ctx.get(dut.of_class) == value
        if cls < 2:
            assert ctx.get(dut.of_vector) == value


def test_one_value_needs_no_choice():
    numerics, data_width = machine("vectors")
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    m = Module()
    assert isinstance(by_class(m, Const(0, 2), [3, 3, 3], "all"), Const)
    assert isinstance(of_vectors(m, Const(0, 2), sizes, [9, 9, 3], "some"), Const)
    assert not isinstance(by_class(m, Const(0, 2), [3, 3, 9], "all"), Const)
