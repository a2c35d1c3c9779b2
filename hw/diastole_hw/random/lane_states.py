"""Compute the states of a row's shift register for several lanes at once, as exclusive-ors of the
current state."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.lfsr import PAIR_LFSR_BITS, taps_of
from diastole_sim.spec.require import require_choice, require_int


def leap_masks(bits: int, steps: int) -> list[int]:
    """Return a mask for each bit of the state ``steps`` steps later. The parity of the masked bits
    of the current state is the later bit."""
    taps = taps_of(bits)
    masks = [1 << bit for bit in range(bits)]
    for _ in range(steps):
        masks = [reduce(xor, (masks[tap - 1] for tap in taps)), *masks[:-1]]
    return masks


def leap(state, steps: int):
    """Return the state ``steps`` steps later."""
    masks = leap_masks(len(state), steps)
    return Cat(
        reduce(xor, (state[bit] for bit in range(len(state)) if mask >> bit & 1)) for mask in masks
    )


def state_layout(state_bits: int, pairs: bool) -> data.StructLayout:
    """Return the layout of the state from which a row draws random bits.

    - ``register``: shift register.
    - ``exchanged``, only with ``pairs``: element of the next pair of columns that draws the inverse
      of the register: 0 for the odd element, 1 for the even element.
    """
    return data.StructLayout(
        {"register": unsigned(state_bits)} | ({"exchanged": unsigned(1)} if pairs else {})
    )


class LaneStates(wiring.Component):
    """Draw the random bits of ``lanes`` neighbouring elements of a row, from the state of the first
    column. Also compute the state of the column after the last.

    Without ``pairs``, the register steps once per column, and the low bits of the register are a
    draw, the random bits of an element. With ``pairs``, the register steps once per pair of
    columns. One element of a pair draws the state and the other element its inverse, alternating
    from pair to pair.

    Timing: combinational.

    Parameters
    ----------
    lanes : int
        1, 2, 4, 8 or 16. The first column of a word is a multiple of ``lanes``.
    random_bits : int
        Bits of a draw (1 to ``state_bits``; 3 with ``pairs``).
    state_bits : int
        Bits of the register (3 to 24; 3 with ``pairs``).
    pairs : bool

    Members
    -------
    state : In(:func:`state_layout`)
        State of the first column.
    odd : In(1)
        The first column is odd. Read only with ``pairs`` and one lane.
    draws : Out(lanes * random_bits)
        Draw of column n of the word at bit ``n * random_bits``.
    after : Out(:func:`state_layout`)
        State of the column after the word.

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
        else:  # from 4 lanes on a word has an even number of pairs
            m.d.comb += self.after.register.eq(leap(register, self.lanes >> 1))
            m.d.comb += self.after.exchanged.eq(exchanged ^ (self.lanes == 2))
        return m
