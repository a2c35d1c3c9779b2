"""Run a product in Verilator: compile the Verilog once, and simulate it with a memory."""
