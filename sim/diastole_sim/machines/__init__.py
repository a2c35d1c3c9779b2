"""Start machines for a host: a simulation in Verilator, or a board behind a serial line.

A started machine is a :class:`diastole_sim.host.running.RunningMachine`. A machine starts from a
product directory, never from a Python object of the generator.
"""
