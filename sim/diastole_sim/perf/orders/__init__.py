"""Count orders of loops of a training step exactly, on a machine with one scratchpad.

The counts serve the comparison with published work on comparable machines. :mod:`diastole_sim.perf`
models the machines of this project.
"""
