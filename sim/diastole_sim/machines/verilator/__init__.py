"""A product in Verilator: its Verilog compiled once, and simulated with a memory."""
