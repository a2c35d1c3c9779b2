"""Write the resources of a mapped machine for readers: a tree of components, the device, the
longest path."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from diastole.report.format_table import align
from diastole.synth.flow import Synthesis
from diastole.synth.memories import MACRO_BITS, MACRO_WORDS, Memories
from diastole.synth.paths import LongestPath
from diastole.synth.route import Routed
from diastole.synth.targets import (
    BLOCK_RAMS,
    CARRY,
    DSPS,
    LATCHES,
    LUT_RAM,
    LUTS,
    NAND2,
    REGISTERS,
    SITES,
    Fpga,
)
from diastole.synth.tree import Component

HEADINGS = {
    SITES: "sites",
    LUTS: "LUTs",
    CARRY: "carry",
    LUT_RAM: "LUT RAM",
    REGISTERS: "registers",
    LATCHES: "latches",
    DSPS: "DSPs",
    BLOCK_RAMS: "block RAMs",
    NAND2: "NAND2",
}
SCARCE = (DSPS, BLOCK_RAMS)
"""Scarce resources. A component with :data:`FEW` times the least share of a scarce resource is
always listed."""
MAX_DELAYS = 10
"""Number of components with a listed longest path."""
WIDTH = 100
"""Number of columns of a list of memories."""
FEW = 5
"""Factor on the least listed share, for scarce resources."""


def synth_lines(synthesis: Synthesis, least: float) -> list[str]:
    """Return the table of components that take at least the share ``least`` of the machine, with
    notes."""
    target, whole = synthesis.request.target, synthesis.tree.total
    shown = [each for each in target.resources if each != LATCHES or whole.get(LATCHES)]
    heading = ["component", "times", *(HEADINGS[each] for each in shown), "share"]
    rows = [
        [
            "  " * depth + part.name,
            f"{part.instances:,}",
            *(f"{part.total.get(each, 0):,.0f}" for each in shown),
            f"{share(part.total, whole, target.main):.1%}",
        ]
        for depth, part in what_matters(synthesis.tree, least, target.main)
    ]
    below = (
        _legend(synthesis),
        _memories(synthesis),
        _device(synthesis),
        _routed(synthesis),
        _delayed(synthesis),
    )
    return [*align([heading, *rows]), "", *(line for lines in below for line in lines)]


def what_matters(tree: Component, least: float, main: str) -> Iterator[tuple[int, Component]]:
    """Yield depth and component of all components that matter, the largest share of ``main``
    first."""
    whole = tree.total

    def below(part: Component, depth: int) -> Iterator[tuple[int, Component]]:
        yield depth, part
        order = sorted(part.parts, key=lambda each: -each.total.get(main, 0))
        for each in order:
            total = each.total
            scarce = max(share(total, whole, name) for name in SCARCE)
            if share(total, whole, main) >= least or scarce >= FEW * least:
                yield from below(each, depth + 1)

    yield from below(tree, 0)


def share(part: Mapping[str, float], whole: Mapping[str, float], resource: str) -> float:
    """Return the share of ``part`` in ``whole``; 0 if ``whole`` has none of the resource."""
    return part.get(resource, 0) / whole[resource] if whole.get(resource) else 0.0


def _legend(synthesis: Synthesis) -> list[str]:
    target = synthesis.request.target
    tools = ", ".join(f"{name} {version}" for name, version in synthesis.versions.items())
    how = (
        "flat: a cell counts for the component of the signal that gives the cell a name"
    ) if synthesis.flat else (
        "by component: each component is mapped once; times: number of copies"
    )  # fmt: skip
    lines = [f"{target.title}, {tools}; {how}"]
    if isinstance(target, Fpga):
        text = "sites: places of a LUT that LUTs, carry chains and LUT RAM take"
        lines.append(f"{text}; a block RAM has {target.block_ram}")
    else:
        text = "NAND2: area over that of the smallest NAND2"
        lines.append(f"{text}, of all but the memories with a clocked read")
    if synthesis.per_mac is not None:
        unit = f"{HEADINGS[target.main]} per MAC, {synthesis.design.macs:,} MACs"
        lines.append(f"{synthesis.per_mac:,.0f} {unit}")
    return lines


def _memories(synthesis: Synthesis) -> list[str]:
    """Return lines on the two kinds of memories, with shapes."""
    within, clocked = synthesis.design.within_cycle, synthesis.design.clocked
    main = synthesis.request.target.main
    counted = isinstance(synthesis.request.target, Fpga)
    lines: list[str] = []
    if within.count:
        built = " and ".join(f"{n:,} {HEADINGS[name]}" for name, n in synthesis.built_of.items())
        if not synthesis.flat:
            built += f", {synthesis.within_cycle.get(main, 0):,.0f} {HEADINGS[main]}"
        lines.append(f"memories read within the cycle, counted: {_size(within)}, built of {built}")
        lines += _shapes(within)
    if clocked.count:
        how = "counted" if counted else "not counted"
        lines.append(f"memories with a clocked read, {how}: {_size(clocked)}")
        lines += _shapes(clocked)
    small = clocked.without_macros
    if small.count and not counted:
        lines += [
            f"of these {_size(small)}: fewer than {MACRO_WORDS} words or {MACRO_BITS:,} bits each,",
            "logic in a product's file lists, as no macro is so small; their area comes on top",
        ]
    return lines


def _size(memories: Memories) -> str:
    return f"{memories.count:,} of {memories.bits:,} bits"


def _shapes(memories: Memories) -> list[str]:
    """Return the shapes of memories with their numbers. No line ends within a shape."""
    gap = "\0"
    shapes = ", ".join(str(each).replace(" ", gap) for each in memories.shapes)
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent="  ", subsequent_indent="  ")
    lines = wrapper.wrap(f"words x bits: {shapes}")
    return [line.replace(gap, " ") for line in lines]


def _device(synthesis: Synthesis) -> list[str]:
    """Return the use of the device's resources, and the resources that do not suffice."""
    if not synthesis.holds:
        return []
    total = synthesis.tree.total
    missing = [
        HEADINGS[name] for name, there in synthesis.holds.items() if total.get(name, 0) > there
    ]
    lines = [f"{synthesis.request.device_name}: {usage(total, synthesis.holds)}"]
    return lines + ([f"does not fit: too few {', '.join(missing)}"] if missing else [])


def usage(total: Mapping[str, float], capacity: Mapping[str, int]) -> str:
    """Return the used amounts of all resources of which the device has any."""
    parts: list[str] = []
    for name, there in capacity.items():
        used = total.get(name, 0)
        if there:
            parts.append(f"{HEADINGS[name]} {used:,.0f} of {there:,} ({used / there:.0%})")
    return ", ".join(parts)


def _routed(synthesis: Synthesis) -> list[str]:
    if synthesis.routed is None:
        return []
    routed = synthesis.routed
    used = ", ".join(f"{name} {used:,}" for name, (used, _) in routed.utilisation.items())
    return [
        f"placed and routed with seed {routed.seed}: {used}",
        "ports are on chains of registers, of the harness, with 4 pins",
        f"{routed.fmax_mhz:.2f} MHz, asked for {routed.requested_mhz:g} MHz{_others(routed)}",
        *([] if routed.path is None else path_lines(routed.path)),
    ]


def _others(routed: Routed) -> str:
    """Return the clocks that were reached from the remaining seeds."""
    others = [f"{mhz:.2f}" for seed, mhz in routed.clocks.items() if seed != routed.seed]
    return f"; other seeds {', '.join(others)}" if others else ""


def _delayed(synthesis: Synthesis) -> list[str]:
    delays = synthesis.delays
    if delays is None:
        return []
    rows = [["component", "ns", "from", "to"]]
    rows += [
        [each.component, f"{each.ns:.2f}", str(each.begin), str(each.end)]
        for each in delays.components[:MAX_DELAYS]
    ]
    how = "by the library's delays, without wires, of clocked memories nothing"
    return [
        f"{delays.mhz:.1f} MHz, cells sized for {delays.requested_mhz:g} MHz: {how}",
        *path_lines(delays.path),
        "longest path into each component's registers:",
        *align(rows),
    ]


def path_lines(path: LongestPath) -> Sequence[str]:
    """Return a line for every component on the path, under a heading."""
    rows = [["through", "signal", "cells", "logic ns", "routing ns"]]
    rows += [
        [
            each.place.component or "top",
            each.place.signal or "-",
            str(each.cells),
            f"{each.logic_ns:.2f}",
            f"{each.routing_ns:.2f}",
        ]
        for each in path.stretches
    ]
    took = f"{path.ns:.2f} ns, {path.logic_ns:.2f} in cells"
    return [f"longest path: {took}, from {path.begin} to {path.end}", *align(rows)]
