"""The golden functions of the special lanes, by the name of the operation."""

from diastole_sim.golden.vector.functions import exp, lge, lgg, lgm, rcp, rsq

FUNCTIONS = {each.__name__: each for each in (exp, rcp, rsq, lge, lgm, lgg)}
