"""A row's shift register, seen by several lanes at once: steps ahead are exclusive-ors."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.lfsr import PAIR_LFSR_BITS, taps_of
from diastole_sim.spec.require import require_choice, require_int


def leap_masks(bits: int, steps: int) -> list[int]:
    """Of each bit of a state ``steps`` later the bits of the state now whose parity it is."""
    taps = taps_of(bits)
    masks = [1 << bit for bit in range(bits)]
    for _ in range(steps):
        masks = [reduce(xor, (masks[tap - 1] for tap in taps)), *masks[:-1]]
    return masks


def leap(state, steps: int):
    """The state so many steps later."""
    masks = leap_masks(len(state), steps)
    return Cat(
        reduce(xor, (state[bit] for bit in range(len(state)) if mask >> bit & 1)) for mask in masks
    )


def state_layout(state_bits: int, pairs: bool) -> data.StructLayout:
    """What is kept of a row: its register, and of ``pairs`` which element of the next pair has the
    inverse: 0, the odd one."""
    return data.StructLayout(
        {"register": unsigned(state_bits)} | ({"exchanged": unsigned(1)} if pairs else {})
    )


class LaneStates(wiring.Component):
    """The draws of ``lanes`` neighbours of a row, from the state of the first one's column, and the
    state of the column after them. Without ``pairs`` the register steps once per column, and a draw
    is its low bits. With them it steps once per pair of columns, of which one draws the state and
    the other its inverse, in turn from pair to pair.

    Timing: combinational.

    Parameters
    ----------
    lanes : int
        1, 2, 4, 8 or 16; the first column of a word is a multiple of it.
    random_bits : int
        Bits of a draw (1 to ``state_bits``).
    state_bits : int
        Of the register (3 to 24), 3 with ``pairs``.
    pairs : bool

    Members
    -------
    state : In(:func:`state_layout`)
    odd : In(1)
        The first column is; only looked at with ``pairs`` and one lane.
    draws : Out(lanes * random_bits)
        That of column n of the word at bit ``n * random_bits``.
    after : Out(:func:`state_layout`)

    ValueError if out of range.
    """

    def __init__(self, *, lanes: int, random_bits: int, state_bits: int, pairs: bool):
        require_choice("lanes", lanes, (1, 2, 4, 8, 16))
        taps_of(state_bits)
        require_int("random_bits", random_bits, PAIR_LFSR_BITS if pairs else 1, state_bits)
        if pairs:
            require_int("state_bits", state_bits, PAIR_LFSR_BITS, PAIR_LFSR_BITS)
        self.lanes, self.random_bits = lanes, random_bits
        self.state_bits, self.pairs = state_bits, pairs
        layout = state_layout(state_bits, pairs)
        super().__init__(
            {
                "state": In(layout),
                "odd": In(1),
                "draws": Out(lanes * random_bits),
                "after": Out(layout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        register = self.state.register
        if not self.pairs:
            states = (leap(register, lane) for lane in range(self.lanes))
            m.d.comb += self.draws.eq(Cat(state[: self.random_bits] for state in states))
            m.d.comb += self.after.register.eq(leap(register, self.lanes))
            return m
        exchanged = self.state.exchanged
        draws = []
        for lane in range(self.lanes):
            pair = lane >> 1
            inverted = Signal(name=f"inverted{lane}")
            other = (lane + pair) & 1 if self.lanes > 1 else self.odd
            m.d.comb += inverted.eq(exchanged ^ other)
            draws.append(leap(register, pair) ^ inverted.replicate(self.state_bits))
        m.d.comb += self.draws.eq(Cat(draws))
        if self.lanes == 1:  # a pair ends in an odd column
            m.d.comb += self.after.register.eq(Mux(self.odd, leap(register, 1), register))
            m.d.comb += self.after.exchanged.eq(exchanged ^ self.odd)
        else:  # of 4 lanes on a word has an even number of pairs
            m.d.comb += self.after.register.eq(leap(register, self.lanes >> 1))
            m.d.comb += self.after.exchanged.eq(exchanged ^ (self.lanes == 2))
        return m
