"""What travels between cells: the layouts of vectors, held words, control and partial sums.

:class:`CellShape` is the one description of a cell; each layout follows from it.
"""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const
from amaranth.utils import bits_for

from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS, Format
from diastole_sim.spec.numerics import BLOCK_SIDES, MAX_ACCUMULATOR_BITS
from diastole_sim.spec.require import require_choice, require_int

EAST, NORTH = "east", "north"
DIRECTIONS = ((EAST, NORTH), (EAST,), (NORTH,))
"""What a cell may be made for: both directions, chosen by the slot, or one."""
PIPELINES = ("none", "products", "full")
"""Registers on the way of a product into its partial sum, beside those of the block sum and of the
partial sum: none; one behind every multiplier; also one before it, one in the tree and one behind
the shift."""
MULTIPLIERS = ("fabric", "dsp", "dsp25")
"""What significands are multiplied in: logic, or DSP blocks of an FPGA, of 18 x 18 bits or more,
or of 25 x 18."""
DSP_BITS = {"dsp": 18, "dsp25": 24}
"""Bits of the longer factor of a DSP block, without a sign, which one of 25 x 18 always has."""
MAX_DEPTH = 253
"""Of binary32's exponents, bfloat16's."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """An element inside the array: (-1)^sign * sig * 2^-d, in the unit of its group's last place.

    ``significand_bits`` P (1..8): bits of sig, a hidden one included. ``depth`` D (0..253): d is
    0 to D; 0 in block floating point, which has no d. From bit 0: sig, d, the sign. In a machine
    that has a D > 0 the sig of a class with fewer bits than P stands at the top of them, in another
    at the bottom. A zero has sig 0 and d 0.

    ``derived``: the top bit of sig is 0 in zeros and at d = D only, as in one minifloat format, so
    that a cell need not keep it. ValueError if out of range.
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
    def holding(cls, *formats: Format) -> "Element":
        """The element that takes those of every one of ``formats``."""
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
        """Everything but the sign."""
        return self.significand_bits + self.depth_bits

    @property
    def bits(self) -> int:
        return self.magnitude_bits + 1

    def significand(self, element):
        """sig of the value ``element``."""
        return element[: self.significand_bits]

    def fall(self, element):
        """d of the value ``element``; of no bits where D is 0."""
        return element[self.significand_bits : self.magnitude_bits]


@dataclass(frozen=True, kw_only=True)
class CellShape:
    """What a cell is made of; its partial sums' bits are a parameter of their own.

    ``rows``: cells above each other (1..64), the range of a held word's ``row``. ``block``: B.
    ``south``, ``west``, ``held``: the elements that stream from there, and those that are held;
    one that no direction streams means nothing. ``window``: w, bits of the tree that every product
    enters rounded (w <= 56), or None: all are block floating point, and no product is rounded.
    ``exact``: w is wide enough for every pair of elements that meets. ``sum_bits``: SW (3..57), F
    ``fraction`` (0..32). ``directions``: of ``DIRECTIONS``.

    ``lane_deficits``: to the north every lane, that is every held word, has a deficit, ``nonzero``
    and significand of its own. ``significands``: scales have a significand. ``extents``: vectors
    and words say how far down their elements reach. ``poison``: they say what is not a number.
    ``pipeline``: of ``PIPELINES``; ``multiplier``: of ``MULTIPLIERS``. ValueError if
    something is out of range.
    """

    rows: int
    block: int
    south: Element
    west: Element
    held: Element
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
        require_choice("pipeline", self.pipeline, PIPELINES)
        require_choice("multiplier", self.multiplier, MULTIPLIERS)
        if self.window is None and (self.vector_element.depth or self.held.depth):
            raise ValueError("window must be a number of bits where elements have a depth")
        if self.window is None and self.extents:
            raise ValueError("extents must be false without a window")

    @property
    def in_place(self) -> bool:
        """Whether a slot chooses between both directions."""
        return len(self.directions) == 2

    @property
    def lanes(self) -> int:
        """How many marks a held block has of each kind: one, or one for each lane to the north."""
        return self.block if self.lane_deficits and NORTH in self.directions else 1

    @property
    def streams(self) -> tuple[Element, ...]:
        """The elements that may meet held ones."""
        return tuple(
            {EAST: self.south, NORTH: self.west}[direction] for direction in self.directions
        )

    @property
    def vector_element(self) -> Element:
        """Holds an element of either side."""
        return Element(
            significand_bits=max(element.significand_bits for element in self.streams),
            depth=max(element.depth for element in self.streams),
        )

    def resized(self, value, source: Element, target: Element):
        """``value``, an element of layout ``source``, in the layout ``target``."""
        sig, fall = source.significand(value), source.fall(value)[: target.depth_bits]
        missing = target.significand_bits - source.significand_bits
        zeros = Const(0, max(missing, 0))
        if self.window is None:  # significands stand at the bottom
            sig = Cat(sig, zeros)[: target.significand_bits]
        else:
            sig = Cat(zeros, sig)[-target.significand_bits :]
        return Cat(sig, fall, Const(0, target.depth_bits - len(fall)), value[-1])

    @property
    def product_bits(self) -> int:
        """w: bits of a product's magnitude in the tree."""
        both = self.vector_element.significand_bits + self.held.significand_bits
        return both if self.window is None else self.window

    @property
    def products_per_dsp(self) -> int:
        """Products of a vector's element, each with an element of another lane, that one DSP block
        makes; 0 where there are none of these."""
        if self.multiplier not in DSP_BITS:
            return 0
        held = self.held.significand_bits
        more = (DSP_BITS[self.multiplier] - held) // (self.vector_element.significand_bits + held)
        return min(1 + more, self.block)

    @property
    def tree_bits(self) -> int:
        """Of a block sum before it is multiplied by two scales' significands."""
        return self.sum_bits - 2 * SCALE_SIGNIFICAND_BITS * self.significands

    @property
    def deficit_bits(self) -> int:
        """Of a deficit: those of SW + F, at which a block sum has left the window whole."""
        return bits_for(self.sum_bits + self.fraction)

    @property
    def extent_bits(self) -> int:
        """Of an extent, at most P + D."""
        elements = (*self.streams, self.held)
        return bits_for(max(element.significand_bits + element.depth for element in elements))

    @property
    def extent_limit(self) -> int:
        """Sum of two extents up to which no product of two elements is rounded."""
        return self.product_bits

    @property
    def tree_cut(self) -> int | None:
        """Adders of the tree in front of the registers in it; None where there are none.

        In the full pipeline a multiplier of block floating point has time for one adder more, and
        half the registers do there.
        """
        if self.pipeline == "none":
            return None
        return int(self.pipeline == "full" and self.window is None and self.block > 1)

    @property
    def direction_copies(self) -> int:
        """Registers that a slot's direction is in: in the full pipeline two for each lane, since
        it drives a multiplexer for every bit of a held block."""
        return 2 * self.block if self.pipeline == "full" and self.in_place else 1

    @property
    def halves(self) -> bool:
        """Whether aligned block sums are kept before they are added, and added in two halves, the
        upper one a cycle after the lower one."""
        return self.pipeline == "full"

    @property
    def scale_registers(self) -> bool:
        """Whether block sums are kept before they are multiplied by scales' significands."""
        return self.pipeline == "full" and self.significands

    @property
    def arrival(self) -> int:
        """Cycles from a vector's arrival to its multiplication: 1 where a cell works with the
        registers that vectors, words and control hop on from, and not with what its neighbours'
        registers say, so that no path of the multipliers begins outside."""
        return int(self.pipeline == "full")

    @property
    def work(self) -> int:
        """Cycles from the multiplication of a vector to the addition of its products."""
        return 1 + (self.tree_cut is not None) + self.halves + self.scale_registers

    @property
    def stages(self) -> int:
        """P: cycles from a vector's arrival at a cell to the addition of its products, of their
        lower halves where they are added in halves. A hop always takes one cycle."""
        return self.arrival + self.work

    @property
    def latency(self) -> int:
        """Cycles from a vector's arrival at a cell to the partial sum that it is in, whole: the one
        number that all latencies behind the array follow from."""
        return self.stages + 1 + self.halves
