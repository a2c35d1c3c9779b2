"""Drive any machine through memory and registers: tensors, commands, loops, whole programs.

:class:`~diastole_sim.host.host_device.HostDevice` takes tensors, and
:class:`~diastole_sim.host.vector_machine.VectorMachine` runs programs of a machine with a vector
unit. They run on any :class:`~diastole_sim.host.running.RunningMachine`.
:mod:`diastole_sim.machines` starts a simulation, or finds a board.
"""
