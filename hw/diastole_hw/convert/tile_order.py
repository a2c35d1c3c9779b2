"""Order of the tiles of a tensor: row by row, or patch by patch if a chain streams the tensor in
patches.

A unit creates an order by :func:`make_tile_order`. Method ``follow`` of the order numbers the
tiles. The order by rows has no state: a machine without patches pays for the numbers alone.
"""

from dataclasses import dataclass

from amaranth.hdl import Array, Module, Mux, Signal, Value, ValueLike, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.transfer.address import whole_beats

LENGTH_BITS = 16
"""Bits of a length in blocks or tiles, as in the loops of products."""
RIGHT, NEXT_LINE, ACROSS, DOWN = range(4)
"""Moves to the next tile. ``RIGHT``: to the tile on the right. ``NEXT_LINE``: to the left end of
the patch, one row of tiles lower. ``ACROSS``: to the top of the patch on the right. ``DOWN``: to
the left end of the tensor, below the patch."""


def cut_layout() -> data.StructLayout:
    """Return the layout of the cut of a tensor into patches.

    ``cut``: 1 if the tensor is cut; else its tiles come row by row. ``high``, ``wide``: height and
    width of a patch in tiles, at least 1. Patches are smaller where the tensor ends.
    ``by_columns``: patches come column by column, else row by row.
    """
    lengths = dict.fromkeys(("high", "wide"), unsigned(LENGTH_BITS))
    return data.StructLayout({"cut": 1, "by_columns": 1} | lengths)


@dataclass(frozen=True)
class Numbers:
    """Describe numbers of tiles, modulo the width of ``origin``. The tensor's first tile has
    ``origin``. The tile on the right has ``right`` more, and the tile below has ``below`` more.

    The remaining fields save gates if tiles come row by row, and change no number. ``after``:
    number of the tile on the right of the current tile, if a unit has the number anyway. ``lower``:
    number of the next tile at the end of a row of tiles, if a unit has the number anyway.
    ``dense``: a row of tiles continues the numbers of the row above. ``unit``: a power of two that
    divides all numbers; lower bits are constants.
    """

    origin: Value
    right: ValueLike
    below: ValueLike
    after: Value | None = None
    lower: Value | None = None
    dense: bool = False
    unit: int = 1


class TileOrder(wiring.Component):
    """Find the next tile after the current tile: in a patch row by row, and patch by patch.

    Timing: outputs are combinational from registers, ``cut`` and ``last_row``, ``last_col``.

    Members
    -------
    start : In(1)
        The current tile is the tensor's first from the next cycle on.
    cut : In(:func:`cut_layout`)
        Must hold from ``start`` to the last tile.
    advance : In(1)
        Go on to the next tile.
    last_row, last_col : In(1)
        The current tile is in the last row, the last column of tiles of the tensor.
    move : Out(2)
        ``RIGHT``, ``NEXT_LINE``, ``ACROSS`` or ``DOWN``; arbitrary after the tensor's last tile.
    opens : Out(1)
        The tile on the right begins the next patch, and is the target of a later ``ACROSS``.
    leftmost : Out(1)
        The patch is at the left end of the tensor.
    first_row, first_col : Out(1)
        The current tile is in the first row, the first column of tiles of the tensor.
    """

    start: Signal
    cut: data.View
    advance: Signal
    last_row: Signal
    last_col: Signal
    move: Signal
    opens: Signal
    leftmost: Signal
    first_row: Signal
    first_col: Signal

    def __init__(self):
        inputs = dict.fromkeys(("start", "advance", "last_row", "last_col"), In(1))
        outputs = dict.fromkeys(("opens", "leftmost", "first_row", "first_col"), Out(1))
        super().__init__(inputs | outputs | {"cut": In(cut_layout()), "move": Out(2)})

    def firsts(self, m: Module) -> tuple[Signal, Signal]:
        """Return the outputs ``first_row`` and ``first_col``. ``m`` is not used:
        :meth:`LineOrder.firsts` adds registers to it."""
        return self.first_row, self.first_col

    def elaborate(self, platform):
        m = Module()
        cut = self.cut
        # Place of the tile in the patch, and of the patch in the tensor.
        row, column = data_register(LENGTH_BITS), data_register(LENGTH_BITS)
        topmost, leftmost = data_register(), data_register()
        line_ends, patch_ends, ends_way = Signal(), Signal(), Signal()
        m.d.comb += [
            line_ends.eq(self.last_col | (cut.cut & (column + 1 == cut.wide))),
            patch_ends.eq(line_ends & (~cut.cut | self.last_row | (row + 1 == cut.high))),
            # The row of patches ends or, with `by_columns`, the column of patches.
            ends_way.eq(Mux(cut.by_columns, self.last_row, self.last_col)),
            self.first_row.eq(topmost & (row == 0)),
            self.first_col.eq(leftmost & (column == 0)),
            self.leftmost.eq(leftmost),
            self.opens.eq(line_ends & (row == 0) & (topmost | ~cut.by_columns)),
        ]
        with m.If(~line_ends):
            m.d.comb += self.move.eq(RIGHT)
        with m.Elif(~patch_ends):
            m.d.comb += self.move.eq(NEXT_LINE)
        with m.Elif(cut.by_columns):
            m.d.comb += self.move.eq(Mux(ends_way, ACROSS, NEXT_LINE))
        with m.Else():
            m.d.comb += self.move.eq(Mux(ends_way, DOWN, ACROSS))
        with m.If(self.advance):
            m.d.sync += column.eq(Mux(line_ends, 0, column + 1))
            with m.If(line_ends):
                m.d.sync += row.eq(Mux(patch_ends, 0, row + 1))
            with m.If(patch_ends):
                with m.If(cut.by_columns):
                    m.d.sync += [topmost.eq(ends_way), leftmost.eq(leftmost & ~ends_way)]
                with m.Else():
                    m.d.sync += [topmost.eq(topmost & ~ends_way), leftmost.eq(ends_way)]
        with m.If(self.start):
            m.d.sync += [row.eq(0), column.eq(0), topmost.eq(1), leftmost.eq(1)]
        return m

    def follow(self, m: Module, numbers: Numbers, name: str) -> tuple[Signal, Value]:
        """Return the number of the current tile, and the number of the next tile."""
        origin, right, below = numbers.origin, numbers.right, numbers.below
        bits = len(Value.cast(origin))
        here, left, across, down = (
            data_register(bits, name=f"{name}_{part}")
            for part in ("here", "left", "across", "down")
        )
        after, back, opened, following = (
            Signal(bits, name=f"{name}_{part}") for part in ("after", "back", "opened", "next")
        )
        lower = Signal(bits, name=f"{name}_lower")
        m.d.comb += [
            after.eq(here + right),
            back.eq(left + below),
            opened.eq(Mux(self.opens, after, across)),
            lower.eq(Mux(self.leftmost, back, down)),
            following.eq(Array([after, back, opened, lower])[self.move]),
        ]
        with m.If(self.advance):
            m.d.sync += [here.eq(following), across.eq(opened), down.eq(lower)]
            with m.If(self.move != RIGHT):
                m.d.sync += left.eq(following)
        with m.If(self.start):
            m.d.sync += [here.eq(origin), left.eq(origin)]
        return here, following


class LineOrder:
    """Order the tiles of a tensor without patches: row by row, from left to right. Methods
    ``follow`` and ``firsts`` are as in :class:`TileOrder`.

    Parameters
    ----------
    start, advance, last_row, last_col : Value
        Inputs as the members of :class:`TileOrder`.
    """

    def __init__(self, *, start: Value, advance: Value, last_row: Value, last_col: Value):
        self.start, self.advance = start, advance
        self.last_row, self.last_col = last_row, last_col

    def follow(self, m: Module, numbers: Numbers, name: str) -> tuple[Signal, Value]:
        """Return the numbers of the current and the next tile, as :meth:`TileOrder.follow`;
        ``origin`` must hold from ``start`` on."""
        origin, right, below = numbers.origin, numbers.right, numbers.below
        after, lower, unit = numbers.after, numbers.lower, numbers.unit
        bits = len(Value.cast(origin))
        here = data_register(bits, name=f"{name}_here")
        registers = [here]  # the last entry is the number of the first tile of the row of tiles

        def once(value: Value, what: str) -> Signal:
            signal = Signal(bits, name=f"{name}_{what}")
            m.d.comb += signal.eq(value)
            return signal

        if after is None:
            after = here if _is_zero(right) else once(here + right, "after")
        if numbers.dense:
            lower = after
        elif lower is None and _is_zero(below):
            lower = origin
        elif lower is None:
            if not _is_zero(right):
                registers.append(data_register(bits, name=f"{name}_left"))
            lower = once(registers[-1] + below, "lower")
        # Few synthesisers see that a multiplexer between a register and itself is an enable.
        with m.If(self.advance):
            if after is not here:
                m.d.sync += here.eq(whole_beats(after, unit))
            if lower is not after:
                with m.If(self.last_col):
                    m.d.sync += [each.eq(whole_beats(lower, unit)) for each in registers]
        with m.If(self.start):
            m.d.sync += [each.eq(whole_beats(origin, unit)) for each in registers]
        return here, Value.cast(Mux(self.last_col, lower, after)[:bits])

    def firsts(self, m: Module) -> tuple[Signal, Signal]:
        """Return whether the current tile is in the first row, and in the first column, of the
        tensor."""
        first_row, first_col = data_register(name="first_row"), data_register(name="first_col")
        with m.If(self.advance):
            m.d.sync += first_col.eq(self.last_col)
            with m.If(self.last_col):
                m.d.sync += first_row.eq(0)
        with m.If(self.start):
            m.d.sync += [first_row.eq(1), first_col.eq(1)]
        return first_row, first_col


def _is_zero(step: ValueLike) -> bool:
    return isinstance(step, int) and step == 0


def make_tile_order(
    m: Module, name: str, *, cut: Value | None = None, **members: Value
) -> TileOrder | LineOrder:
    """Return the order of a tensor's tiles: by patches of ``cut``, or row by row if ``cut`` is
    None.

    ``members``: ``start``, ``advance``, ``last_row`` and ``last_col`` of :class:`TileOrder`.
    """
    if cut is None:
        advance = Signal(name=f"{name}_advance")
        m.d.comb += advance.eq(members["advance"])
        return LineOrder(**members | {"advance": advance})
    m.submodules[name] = order = TileOrder()
    m.d.comb += order.cut.eq(cut)
    m.d.comb += [getattr(order, member).eq(value) for member, value in members.items()]
    return order
