"""Derive shapes and widths of Amaranth's types from the sizes of a machine."""

from dataclasses import dataclass
from functools import cached_property

from amaranth.utils import bits_for

from diastole_hw.cell.cell_shape import MULTIPLIERS, PIPELINES, CellShape, Element
from diastole_hw.plan.modes import OPERATION_OF, Mode
from diastole_sim.spec.limits import decided_classes, planes_by_class, slot_words
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.sizes.array_sizes import ArraySizes
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from diastole_sim.spec.sizes.uses import DY, Use, W, X
from diastole_sim.spec.sizes.vector_shape import VectorShape


@dataclass(frozen=True, kw_only=True)
class Plan(ArraySizes):
    """Sizes of a machine, and choices of how its units are built.

    ``vector``: sizes of the vector unit, None without a vector unit. ``pipeline``: pipeline of the
    cells, a member of :data:`diastole_hw.cell.cell_shape.PIPELINES`. ``multiplier``: a member of
    :data:`diastole_hw.cell.cell_shape.MULTIPLIERS`. ``output_register``: a register stands behind
    every bank of the scratchpads, and behind the sums that are read for an addition.

    ValueError as in :class:`ArraySizes`, and if ``choices`` or ``slot_words`` of the vector unit
    differ from the values of the numerics.
    """

    vector: VectorShape | None = None
    pipeline: str = "none"
    multiplier: str = "fabric"
    output_register: bool = False

    def __post_init__(self):
        require_choice("pipeline", self.pipeline, tuple(PIPELINES))
        require_choice("multiplier", self.multiplier, MULTIPLIERS)
        object.__setattr__(self, "has_vector", self.vector is not None)
        super().__post_init__()
        if self.vector is None:
            return
        decided = decided_classes(planes_by_class(self.numerics))
        if self.vector.choices != decided:
            raise ValueError(f"vector.choices must be {decided}, as the numbers have it")
        words = slot_words(self.numerics)
        if self.vector.slot_words != words:
            raise ValueError(f"vector.slot_words must be {words}, as the numbers have it")

    @property
    def has_choices(self) -> bool:
        """True if the machine decides the widths of tensors by itself."""
        return self.vector is not None and self.vector.has_choices

    @property
    def plane_bits(self) -> int:
        """Bits of the number of a plane."""
        return bits_for(max(self.max_planes) - 1)

    @cached_property
    def converter(self) -> ConverterSizes:
        return ConverterSizes(numerics=self.numerics, data_width=self.data_width)

    def use(self, mode: Mode) -> Use:
        """Return how the array computes one of the three products. ``mode`` must not be the fused
        pass."""
        return self.uses[OPERATION_OF[mode].name]

    @property
    def fraction(self) -> int:
        return self.numerics.fraction

    # Elements and sums.

    def element(self, classes: tuple[int, ...] = (X, W, DY)) -> Element:
        """Return the layout inside the array for elements of all ``classes``."""
        return Element.for_formats(*(self.formats[cls] for cls in classes))

    @cached_property
    def shape(self) -> CellShape:
        """Shape of the cell."""
        south, west = self.streamed("south"), self.streamed("west")
        uses = self.uses.values()
        minifloats = any(f.depth for f in self.formats)
        window = max(map(self.product_bits, uses)) if minifloats else None
        names = [(CLASS_NAMES[use.stream], CLASS_NAMES[use.stationary]) for use in uses]
        windowed = any(self.numerics.is_windowed(a, b) for a, b in names)
        return CellShape(
            rows=self.rows,
            block=self.block,
            south=self.element(south or west),
            west=self.element(west or south),
            stationary=self.element((W, DY)),
            window=window,
            exact=not windowed,
            sum_bits=self.sum_bits,
            fraction=self.fraction,
            directions=self.directions,
            lane_deficits=self.lane_deficits,
            significands=self.significands,
            extents=windowed,
            poison=self.poison,
            pipeline=self.pipeline,
            multiplier=self.multiplier,
        )

    @property
    def read_cycles(self) -> int:
        """Cycles from the read request of a scratchpad's bank to the vector at the output: 1, or 2
        with an output register."""
        return 1 + self.output_register

    @property
    def cell_cycles(self) -> int:
        """Cycles from the cycle after a slot to the sums of the first cell."""
        return self.read_cycles - 1 + self.shape.latency

    @property
    def sum_bits(self) -> int:
        """SW, bits of a block sum, of the widest of the three products."""
        return self.numerics.block_sum_bits

    @property
    def deficit_bits(self) -> int:
        return self.shape.deficit_bits

    @property
    def accumulator_bits(self) -> int:
        """Bits of an accumulator, W = SW + F + G."""
        return self.numerics.accumulator_bits

    @property
    def mantissa(self) -> int | None:
        """Mantissa bits m of float accumulators, None if sums are integers."""
        return self.accumulator.mantissa if self.floats else None

    @property
    def shortest_pass(self) -> int:
        """Least number of cycles from one swap of the stationary blocks to the next.

        Two additions to one word must be 3 cycles apart, and 4 with floats or with a register
        behind the memories of sums.
        """
        return 4
