"""Drives any machine through its memory and registers: tensors, commands, loops, whole programs.

:class:`~diastole_sim.host.host_device.HostDevice` takes tensors, and
:class:`~diastole_sim.host.bell.BellMachine` runs programs of a machine with a vector unit. Both
run on a :class:`~diastole_sim.host.running.RunningMachine` and do not know what it is:
:mod:`diastole_sim.machines` starts a simulation, or finds a board.
"""
