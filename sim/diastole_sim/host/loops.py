"""Choose the loop nests of a host's products, product by product."""

from collections.abc import Mapping
from typing import Any

from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.modelled_machine import Memory, ModelledMachine
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.nest import Nest, ProductNests
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.sizes.uses import WIDEST, Widths


class ProductLoops:
    """Nests for the commands of one machine.

    ``parameters``: parameters of the manifest; KeyError, TypeError or ValueError for a malformed
    value. ``nest``: nest of every product that takes a nest; None: the nests of
    :func:`diastole_sim.perf.choose.choose_nest`, one search per shape. ``memory``: memory of the
    machine; None: an unknown memory. ``cell_cycles``: as in
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
        self._nests: dict[tuple[str, int, int, int, Widths], Nest] = {}

    def products(
        self, operation: str, *, m: int, n: int, widths: Widths = WIDEST
    ) -> tuple[str, ...]:
        """Return the names of the products of an operation. If the machine cannot compute the two
        gradients in a single pass, the backward pass is two products, each with its own loops."""
        apart = operation == "backward" and not self._machine.fuses(m, n, widths)
        return ("dx", "dw") if apart else (operation,)

    def of(self, operation: str, *, m: int, n: int, k: int, widths: Widths = WIDEST) -> Nest:
        """Return the nest of a product with sizes in elements and operands of these ``widths``; the
        machine's own nest if the product takes none.

        ValueError if the requested nest does not fit.
        """
        limits = self.limits.of(operation)
        if limits is None:
            if self.nest not in (None, DEFAULT_NEST):
                raise ValueError(f"{operation} takes no nest: the loops of {operation} are fixed")
            return DEFAULT_NEST
        if self.nest is not None:
            loops = loops_of(self._machine, operation, m, n, k, widths=widths)
            if problem := limits.problem(self.nest, loops.blocks, loops.planes):
                raise ValueError(f"the nest of {operation}: {problem}")
            return self.nest
        shape = (operation, m, n, k, widths)
        if shape not in self._nests:
            self._nests[shape] = choose_nest(self._machine, limits, *shape)
        return self._nests[shape]
