"""Sites of whole machines on an ECP5, mapped flat, and what a MAC of one takes in gates."""

from collections.abc import Callable, Iterator, Mapping

from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.figure import Figure, at_most, shown
from diastole.product.generate import product_contents
from diastole.synth.flow import Request, Tools, synthesise
from diastole.synth.mapper import Design
from diastole.synth.programs import YOSYS
from diastole.synth.targets import ECP5, NAND2, SITES, Target, sg13g2
from diastole.synth.tree import Component

MOST_SITES: Mapping[str, int | None] = {"pico": 17_000, "nano": None}
"""Sites that are asked of the presets at most, without their vector unit; None: as many as may
be."""
PER_MAC = "nano"
"""The preset whose components are told in gates per MAC."""
LEAST_SHARE = 0.02
"""Of the machine, that a component takes which is told."""

MapMachine = Callable[[Config, Target, bool], Component]
"""A machine, what it is mapped to, whether flat: its components."""


def mapped(config: Config, target: Target, flat: bool) -> Component:
    """By the pinned Yosys; ToolMissing without it."""
    request = Request(target=target, flat=flat)
    contents = Design.of_contents(*product_contents(config))
    return synthesise(request, contents, Tools(yosys=YOSYS.of_wheel())).tree


def figures(map_machine: MapMachine = mapped) -> Iterator[Figure]:
    """Sites of each preset, then NAND2 equivalents per MAC of the largest components of one."""
    for preset, most in MOST_SITES.items():
        sites = map_machine(PRODUCTS_ONLY[preset], ECP5, True).total[SITES]
        what = f"sites of `{preset}` on ECP5, flat"
        if most is None:
            yield shown(what, sites, "{:,.0f}")
        else:
            yield at_most(what, sites, most, "{:,.0f}")
    config = PRODUCTS_ONLY[PER_MAC]
    tree = map_machine(config, sg13g2(), False)
    least = LEAST_SHARE * tree.total[NAND2]
    for name, area in largest(tree, least):
        yield shown(f"NAND2 per MAC of `{PER_MAC}`: {name}", area / config.macs, "{:.1f}")


def largest(tree: Component, least: float) -> Iterator[tuple[str, float]]:
    """Names and areas of the whole and of all in it that takes at least ``least``, outer ones
    first."""
    area = tree.total[NAND2]
    yield tree.name, area
    for part in tree.parts:
        if part.total.get(NAND2, 0) >= least:
            yield from largest(part, least)
