"""What a mapped machine takes, for people: a tree of what matters, its device, its longest path."""

from collections.abc import Iterator, Mapping, Sequence

from diastole.report.format_table import align
from diastole.synth.flow import Synthesis
from diastole.synth.paths import LongestPath
from diastole.synth.route import Routed
from diastole.synth.targets import (
    BLOCK_RAMS,
    CARRY,
    DSPS,
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
    DSPS: "DSPs",
    BLOCK_RAMS: "block RAMs",
    NAND2: "NAND2",
}
SCARCE = (DSPS, BLOCK_RAMS)
"""A component that takes FEW of these is shown whatever else it takes."""
MOST_DELAYS = 10
"""Components whose longest paths are shown."""
FEW = 5
"""Times the least share that is shown."""


def synth_lines(found: Synthesis, least: float) -> list[str]:
    """The table with components that take at least the share ``least`` of the machine."""
    target = found.request.target
    heading = ["component", "times", *(HEADINGS[each] for each in target.resources), "share"]
    whole = found.tree.total
    rows = [
        [
            "  " * depth + part.name,
            f"{part.instances:,}",
            *(f"{part.total.get(each, 0):,.0f}" for each in target.resources),
            f"{share(part.total, whole, target.main):.1%}",
        ]
        for depth, part in what_matters(found.tree, least, target.main)
    ]
    below = (_legend(found), _device(found), _routed(found), _delayed(found))
    return [*align([heading, *rows]), "", *(line for lines in below for line in lines)]


def what_matters(tree: Component, least: float, main: str) -> Iterator[tuple[int, Component]]:
    """The components that matter, each with its depth, the largest of ``main`` first."""
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
    """Of the whole, 0 where there is none of it."""
    return part.get(resource, 0) / whole[resource] if whole.get(resource) else 0.0


def _legend(found: Synthesis) -> list[str]:
    target = found.request.target
    tools = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    flat = found.request.flat or found.routed is not None
    how = "flat: a cell counts where the signal is that it is named after" if flat else (
        "by component: each is mapped once, times: how many there are"
    )  # fmt: skip
    memories = f"{found.memory_bits / 8192:,.1f} KiB of memories"
    if isinstance(target, Fpga):
        about = f"sites: LUTs with those of carry and LUT RAM; a block RAM has {target.block_ram}"
        return [f"{target.title}, {tools}; {how}", f"{about}; {memories}"]
    about = f"NAND2: area over that of the smallest NAND2; without {memories}"
    return [f"{target.title}, {tools}; {how}", about]


def _device(found: Synthesis) -> list[str]:
    """How full the device would be, or is."""
    if not found.holds:
        return []
    total = found.tree.total
    missing = [HEADINGS[name] for name, there in found.holds.items() if total.get(name, 0) > there]
    said = [f"{found.request.device_name}: {usage(total, found.holds)}"]
    return said + ([f"does not fit: too few {', '.join(missing)}"] if missing else [])


def usage(total: Mapping[str, float], holds: Mapping[str, int]) -> str:
    """What is used of all that a device has any of."""
    parts: list[str] = []
    for name, there in holds.items():
        used = total.get(name, 0)
        if there:
            parts.append(f"{HEADINGS[name]} {used:,.0f} of {there:,} ({used / there:.0%})")
    return ", ".join(parts)


def _routed(found: Synthesis) -> list[str]:
    if found.routed is None:
        return []
    routed = found.routed
    used = ", ".join(f"{name} {used:,}" for name, (used, _) in routed.utilisation.items())
    return [
        f"placed and routed with seed {routed.seed}: {used}",
        "ports are on chains of registers, of the harness, with 4 pins",
        f"{routed.fmax_mhz:.2f} MHz, asked for {routed.asked_mhz:g} MHz{_others(routed)}",
        *([] if routed.path is None else path_lines(routed.path)),
    ]


def _others(routed: Routed) -> str:
    """The clocks of other seeds."""
    others = [f"{mhz:.2f}" for seed, mhz in routed.clocks.items() if seed != routed.seed]
    return f"; other seeds {', '.join(others)}" if others else ""


def _delayed(found: Synthesis) -> list[str]:
    delays = found.delays
    if delays is None:
        return []
    rows = [["component", "ns", "from", "to"]]
    rows += [
        [each.component, f"{each.ns:.2f}", str(each.begin), str(each.end)]
        for each in delays.components[:MOST_DELAYS]
    ]
    how = "by the library's delays, without wires, of memories nothing"
    return [
        f"{delays.mhz:.1f} MHz, cells sized for {delays.asked_mhz:g} MHz: {how}",
        *path_lines(delays.path),
        "longest path into each component's registers:",
        *align(rows),
    ]


def path_lines(path: LongestPath) -> Sequence[str]:
    """A line for every component on the way."""
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
