"""The Verilog around a product."""

from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.harness import harness


def test_inputs_are_registered_and_the_clock_is_not(copier):
    text = harness(Product.load(copier(32)))
    assert ".aclk(aclk)" in text
    assert ".irq(irq)" in text
    assert "input [31:0] m_axi_rdata," in text
    assert "reg [31:0] m_axi_rdata_q;" in text
    assert ".m_axi_rdata(m_axi_rdata_q)" in text
    assert "m_axi_rdata_q <= m_axi_rdata;" in text
    assert "output [3:0] m_axi_wstrb," in text
    assert ".m_axi_wstrb(m_axi_wstrb)" in text
    assert "copier product (" in text
