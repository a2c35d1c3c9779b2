"""Write the costs of the layers of a graph as a table."""

from collections.abc import Sequence

from diastole.layers.graph_costs import REST, GraphLayerCost, total_of
from diastole.report.format_table import align

PHASES = ("forward", "dx", "dw")
MEANINGS = {
    "wait_vector": "the vector unit takes no more sums",
    "wait_store": "memory takes no more results",
    "wait_load": "operands arrive",
    "wait_update": "chains that only update parameters",
    "wait_chain": "chains that compute more than updates",
    "wait_convert": "conversions",
    "wait_command": "the next command, or the last writes",
}


def graph_lines(costs: Sequence[GraphLayerCost], multipliers: int) -> list[str]:
    """Return a line for every layer, the rest and the whole step, then the meaning of each largest
    wait."""
    total = total_of(costs)
    heading = ["layer", "shape", "parameters", "MACs", *PHASES, "cycles", "used", "KiB", "waits"]
    rows = [_row(cost, multipliers) for cost in (*costs, total)]
    waits = {row[-1].partition(" ")[0] for row in rows}
    return [
        *align([heading, *rows]),
        "",
        "MACs: multiplications of a step, without padding; used: share of all multiplier cycles",
        "with such a multiplication; rest: samples, loss, and updates apart from products;",
        "KiB: over the bus, without the reads of conversions, which the model does not count;",
        "waits: largest cause of the array's waits",
        *(f"{name}: {MEANINGS[f'wait_{name}']}" for name in sorted(waits) if name != "-"),
    ]


def _row(cost: GraphLayerCost, multipliers: int) -> list[str]:
    waits = {name: cycles for name, cycles in cost.causes.items() if name in MEANINGS}
    largest = max(waits, key=lambda name: waits[name], default=None)
    wait = "-"
    if largest is not None and waits[largest] > 0:
        wait = f"{largest.removeprefix('wait_')} {waits[largest] / cost.cycles:.0%}"
    of_layer = cost.name != REST
    return [
        cost.name,
        "" if cost.shape is None else f"{cost.shape[0]} x {cost.shape[1]}",
        f"{cost.parameters:,}" if of_layer else "",
        f"{cost.macs:,}" if of_layer else "",
        *(f"{cost.phases[phase]:,}" if of_layer else "" for phase in PHASES),
        f"{cost.cycles:,}",
        f"{cost.utilisation(multipliers):.1%}" if of_layer else "",
        f"{cost.bytes / 1024:,.1f}",
        wait,
    ]
