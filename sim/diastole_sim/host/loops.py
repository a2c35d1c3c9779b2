"""The loops that a host asks for, product by product."""

from collections.abc import Mapping
from typing import Any

from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.modelled_machine import Memory, ModelledMachine
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.nest import Nest, ProductNests
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.sizes.uses import WIDEST, Widths


class ChosenLoops:
    """Nests for the commands of one machine.

    ``parameters``: those of its manifest; KeyError, TypeError or ValueError if they are not.
    ``nest``: for every product that takes one; None: those that
    :func:`diastole_sim.perf.choose.choose_nest` finds, looked for once for each shape. ``memory``:
    that of the machine; None: of which nothing is known. ``cell_cycles``: as of
    :class:`diastole_sim.perf.modelled_machine.ModelledMachine`.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        nest: Nest | None = None,
        memory: Memory | None = None,
        cell_cycles: int = 2,
    ):
        self.limits = ProductNests.from_dict(parameters["nests"])
        self.nest = nest
        self._machine = ModelledMachine.of(
            Numerics.from_dict(parameters["numerics"]),
            rows=parameters["rows"],
            cols=parameters["cols"],
            data_width=parameters["data_width"],
            ports=parameters.get("ports", 1),
            in_place=parameters["in_place"],
            cell_cycles=cell_cycles,
            has_vector="vector" in parameters,
            memory=memory or Memory.axi(),
        )
        self._found: dict[tuple[str, int, int, int, Widths], Nest] = {}

    def products(
        self, operation: str, *, m: int, n: int, widths: Widths = WIDEST
    ) -> tuple[str, ...]:
        """The products that an operation is done as: both gradients apart, each in loops of its
        own, where the machine does not do them in one pass."""
        apart = operation == "backward" and not self._machine.fuses(m, n, widths)
        return ("dx", "dw") if apart else (operation,)

    def of(self, operation: str, *, m: int, n: int, k: int, widths: Widths = WIDEST) -> Nest:
        """For a product of these sizes in elements, and of operands of these ``widths``; the
        machine's own if it takes none.

        ValueError if the nest that was asked for does not fit.
        """
        limits = self.limits.of(operation)
        if limits is None:
            if self.nest not in (None, MACHINES_OWN):
                raise ValueError(f"{operation} takes no nest: its loops are its own")
            return MACHINES_OWN
        if self.nest is not None:
            loops = loops_of(self._machine, operation, m, n, k, widths=widths)
            if problem := limits.problem(self.nest, loops.blocks, loops.planes):
                raise ValueError(f"the nest of {operation}: {problem}")
            return self.nest
        shape = (operation, m, n, k, widths)
        if shape not in self._found:
            self._found[shape] = choose_nest(self._machine, limits, *shape)
        return self._found[shape]
