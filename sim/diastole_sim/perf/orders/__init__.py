"""Orders of loops of a training step on a machine with one scratchpad, counted exactly.

For the comparison with published work on such machines; this project's own machines are in
:mod:`diastole_sim.perf`.
"""
