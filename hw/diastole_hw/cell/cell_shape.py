"""Describe the parameters of a cell and of the elements inside the array.

:class:`CellShape` is the only description of a cell. All layouts of :mod:`diastole_hw.cell.layouts`
follow from the description.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const
from amaranth.utils import bits_for

from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS, Format
from diastole_sim.spec.numerics import BLOCK_SIDES, MAX_ACCUMULATOR_BITS
from diastole_sim.spec.require import require_choice, require_int

EAST, NORTH = "east", "north"
DIRECTIONS = ((EAST, NORTH), (EAST,), (NORTH,))
"""Directions that a cell can be made for: east and north, chosen by the slot, or a single
direction."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Registers on the path of a product into its partial sum, in addition to the registers of
    block sums and of partial sums.

    ``inputs``: before the multipliers. ``products``: behind the multipliers, or with ``tree`` in
    the adder tree (:attr:`CellShape.tree_cut`). ``scales``: before the multiplication by scales.
    ``shift``: behind the shift.
    """

    inputs: bool = False
    products: bool = False
    tree: bool = False
    scales: bool = False
    shift: bool = False


PIPELINES = {
    "none": Pipeline(),
    "products": Pipeline(products=True),
    "full": Pipeline(inputs=True, products=True, tree=True, scales=True, shift=True),
}
"""Pipelines of a cell by name."""
MULTIPLIERS = ("fabric", "dsp", "dsp25")
"""Resources that multiply significands: logic (``fabric``), or DSP blocks of an FPGA, of 18 x 18
bits or more (``dsp``) or of 25 x 18 bits (``dsp25``)."""
DSP_BITS = {"dsp": 18, "dsp25": 24}
"""Bits of the longer factor of a DSP block, without a sign. A block of 25 x 18 bits always has a
sign, which leaves 24 bits."""
MAX_DEPTH = 253
"""Largest depth D: the depth of bfloat16, which has the exponents of binary32."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """Describe an element inside the array: (-1)^sign * sig * 2^-d, in units of the last place of
    the element's group.

    ``significand_bits``: P (1..8), bits of sig with a hidden bit. ``depth``: D (0..253), the
    largest d. D is 0 in block floating point, which has no d. The bits from bit 0 on are sig, d and
    the sign. A class with fewer bits than P has its significand at the top of sig in a machine with
    D > 0, and at the bottom in a machine without. A zero has sig 0 and d 0.

    ``derived``: the top bit of sig is 0 in zeros and at d = D only, as in a single minifloat
    format. A cell need not store the bit then. ValueError if out of range.
    """

    significand_bits: int
    depth: int = 0
    derived: bool = False

    def __post_init__(self) -> None:
        require_int("significand_bits", self.significand_bits, 1, 8)
        require_int("depth", self.depth, 0, MAX_DEPTH)
        if self.derived and not self.depth:
            raise ValueError("derived must be false for a depth of 0: every bit of sig is stored")

    @classmethod
    def for_formats(cls, *formats: Format) -> "Element":
        """Return the element layout that holds the elements of all ``formats``."""
        alike = {(each.precision, each.depth) for each in formats}
        depth = max(each.depth for each in formats)
        return cls(
            significand_bits=max(each.precision for each in formats),
            depth=depth,
            derived=depth > 0 and len(alike) == 1,
        )

    @property
    def depth_bits(self) -> int:
        return bits_for(self.depth) if self.depth else 0

    @property
    def magnitude_bits(self) -> int:
        """Bits of an element without the sign."""
        return self.significand_bits + self.depth_bits

    @property
    def bits(self) -> int:
        return self.magnitude_bits + 1

    def significand(self, element):
        """Return sig of the value ``element``."""
        return element[: self.significand_bits]

    def exponent_drop(self, element):
        """Return d of the value ``element``, with no bits where D is 0."""
        return element[self.significand_bits : self.magnitude_bits]


@dataclass(frozen=True, kw_only=True)
class CellShape:
    """Describe a cell. The bits of a partial sum are a separate parameter of the units.

    Parameters
    ----------
    rows : int
        Cells above each other (1..64), the range of ``row`` of a stationary word.
    block : int
        B.
    south, west, stationary : Element
        Elements that stream from the south and from the west, and stationary elements. The element
        of an absent direction has no meaning.
    window : int or None
        w, bits of the adder tree to which every product is rounded (w <= 56). None: all elements
        are block floating point, and no product is rounded.
    exact : bool
        w is wide enough for every pair of elements that meets.
    sum_bits, fraction : int
        SW (3..57) and F (0..32).
    directions : tuple of str
        A member of ``DIRECTIONS``.
    lane_deficits : bool
        In the north direction every lane, that is every stationary word, has a deficit, ``nonzero``
        and significand of its own.
    significands : bool
        Scales have a significand.
    extents : bool
        Vectors and words tell how far down their elements reach.
    poison : bool
        Vectors and words mark elements that are not a number.
    pipeline, multiplier : str
        Members of ``PIPELINES`` and of ``MULTIPLIERS``.

    ValueError if a parameter is out of range.
    """

    rows: int
    block: int
    south: Element
    west: Element
    stationary: Element
    window: int | None = None
    exact: bool = True
    sum_bits: int
    fraction: int
    directions: tuple[str, ...] = (EAST, NORTH)
    lane_deficits: bool = False
    significands: bool = False
    extents: bool = False
    poison: bool = False
    pipeline: str = "none"
    multiplier: str = "fabric"

    def __post_init__(self) -> None:
        require_int("rows", self.rows, 1, 64)
        require_choice("block", self.block, BLOCK_SIDES)
        if self.window is not None:
            require_int("window", self.window, 2, 56)
        require_int(
            "sum_bits", self.sum_bits, 3 + 2 * SCALE_SIGNIFICAND_BITS * self.significands, 57
        )
        require_int("fraction", self.fraction, 0, 32)
        require_int("sum_bits + fraction", self.sum_bits + self.fraction, 3, MAX_ACCUMULATOR_BITS)
        require_choice("directions", self.directions, DIRECTIONS)
        require_choice("pipeline", self.pipeline, tuple(PIPELINES))
        require_choice("multiplier", self.multiplier, MULTIPLIERS)
        if self.window is None and (self.vector_element.depth or self.stationary.depth):
            raise ValueError("window must be a number of bits where elements have a depth")
        if self.window is None and self.extents:
            raise ValueError("extents must be false without a window")

    @property
    def has_both_directions(self) -> bool:
        """True if a slot chooses between east and north."""
        return len(self.directions) == 2

    @property
    def lanes(self) -> int:
        """Number of marks of each kind in a stationary block: B with ``lane_deficits`` and a north
        direction, else 1."""
        return self.block if self.lane_deficits and NORTH in self.directions else 1

    @property
    def streams(self) -> tuple[Element, ...]:
        """Elements that may meet stationary elements, by direction."""
        return tuple(
            {EAST: self.south, NORTH: self.west}[direction] for direction in self.directions
        )

    @property
    def vector_element(self) -> Element:
        """Element layout that holds the streaming elements of all directions."""
        return Element(
            significand_bits=max(element.significand_bits for element in self.streams),
            depth=max(element.depth for element in self.streams),
        )

    def resized(self, value, source: Element, target: Element):
        """Return ``value``, an element in the layout ``source``, in the layout ``target``."""
        sig = source.significand(value)
        drop = source.exponent_drop(value)[: target.depth_bits]
        missing = target.significand_bits - source.significand_bits
        zeros = Const(0, max(missing, 0))
        if self.window is None:  # significands are aligned to the bottom
            sig = Cat(sig, zeros)[: target.significand_bits]
        else:
            sig = Cat(zeros, sig)[-target.significand_bits :]
        return Cat(sig, drop, Const(0, target.depth_bits - len(drop)), value[-1])

    @property
    def product_bits(self) -> int:
        """Bits of a product's magnitude in the adder tree: w, or all bits of a product without a
        window."""
        both = self.vector_element.significand_bits + self.stationary.significand_bits
        return both if self.window is None else self.window

    @property
    def products_per_dsp(self) -> int:
        """Number of products that a DSP block computes: an element of the vector times elements of
        several lanes. 0 without DSP blocks."""
        if self.multiplier not in DSP_BITS:
            return 0
        stationary = self.stationary.significand_bits
        more = (DSP_BITS[self.multiplier] - stationary) // (
            self.vector_element.significand_bits + stationary
        )
        return min(1 + more, self.block)

    @property
    def tree_bits(self) -> int:
        """Bits of a block sum before the multiplication by the significands of two scales."""
        return self.sum_bits - 2 * SCALE_SIGNIFICAND_BITS * self.significands

    @property
    def deficit_bits(self) -> int:
        """Bits of a deficit: the bits of SW + F, which shifts a whole block sum out of the
        window."""
        return bits_for(self.sum_bits + self.fraction)

    @property
    def extent_bits(self) -> int:
        """Bits of an extent, which is at most P + D."""
        elements = (*self.streams, self.stationary)
        return bits_for(max(element.significand_bits + element.depth for element in elements))

    @property
    def extent_limit(self) -> int:
        """Largest sum of two extents at which no product of two elements is rounded."""
        return self.product_bits

    @property
    def registers(self) -> Pipeline:
        """Registers of the pipeline."""
        return PIPELINES[self.pipeline]

    @property
    def tree_cut(self) -> int | None:
        """Levels of adders in front of the registers in the adder tree, or None without such
        registers.

        In the full pipeline a multiplier of block floating point has time for an adder in front of
        the registers, which halves the number of registers.
        """
        if not self.registers.products:
            return None
        return int(self.registers.tree and self.window is None and self.block > 1)

    @property
    def direction_copies(self) -> int:
        """Number of registers for a slot's direction. The full pipeline with two directions has two
        per lane, because the direction drives a multiplexer for every bit of a stationary block."""
        return 2 * self.block if self.registers.inputs and self.has_both_directions else 1

    @property
    def halves(self) -> bool:
        """True if aligned block sums are registered before the addition. The addition then has two
        halves, the upper half a cycle after the lower half."""
        return self.registers.shift

    @property
    def scale_registers(self) -> bool:
        """True if block sums are registered before the multiplication by the significands of
        scales."""
        return self.registers.scales and self.significands

    @property
    def input_cycles(self) -> int:
        """Cycles from the arrival of a vector to the multiplication. The value is 1 if a cell works
        with its own registers, from which vectors, words and control hop on. No path of the
        multipliers then begins in a neighbouring cell."""
        return int(self.registers.inputs)

    @property
    def multiply_add_cycles(self) -> int:
        """Cycles from the multiplication of a vector to the addition of the products."""
        return 1 + (self.tree_cut is not None) + self.halves + self.scale_registers

    @property
    def stages(self) -> int:
        """P: cycles from the arrival of a vector at a cell to the addition of the products. With
        ``halves`` P counts to the addition of the lower halves. A hop always takes one cycle."""
        return self.input_cycles + self.multiply_add_cycles

    @property
    def latency(self) -> int:
        """Cycles from the arrival of a vector at a cell to the whole partial sum that includes the
        vector. All latencies behind the array follow from this number."""
        return self.stages + 1 + self.halves
