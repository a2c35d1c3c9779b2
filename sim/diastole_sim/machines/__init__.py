"""Starts machines that a host drives: a simulation in Verilator, or a board behind a serial line.

Each is a :class:`diastole_sim.host.running.RunningMachine`. A machine starts from a product
directory, never from a Python object of the generator.
"""
