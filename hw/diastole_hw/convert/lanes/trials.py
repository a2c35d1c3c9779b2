"""Find which of two scales every unit gets, in a pass over the tile."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.lanes.reduction import BelowZero
from diastole_hw.convert.lanes.scale_trial import TRIAL_CYCLES, WORSE_BITS, ScaleTrial
from diastole_hw.convert.lanes.unit_reduction import UnitReduction, squares_layout
from diastole_hw.convert.tile_layouts import word_layout
from diastole_hw.data_registers import delayed_record
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def tried_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of a word to be tried, when ``add``. The remaining fields are inputs of
    :class:`UnitReduction`."""
    flags = dict.fromkeys(("add", "row_end", "last_row"), unsigned(1))
    return data.StructLayout({"at": word_layout(sizes)} | flags)


class Trials(wiring.Component):
    """Output for every unit of a tile whether the scale for 4 fits better than the scale for 6:
    whether the sum of :class:`ScaleTrial` over the elements is below 0.

    Timing: 1 word per cycle. ``done`` comes :data:`TRIAL_CYCLES` and 2 cycles after the last word
    of a tile. The timing after ``done`` is as in :class:`UnitReduction`.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    cls : In(2)
    scale : In(8)
        T + 138. Must hold from the first word of a tile to ``done``, as must ``cls``.
    word : In(:func:`tried_layout`)
        Words of a tile row by row; ``half`` is ignored.
    values : In(32 * lanes)
        Elements of a word to be tried: binary32, 0 outside the tensor.
    measured, measured_t : In(array of lanes unsigned(16))
        Code of the scale for 4, and above it the code of the scale for 6, of every lane's unit.
        ``measured`` is for the square or the row, ``measured_t`` for the column. ``measured_t`` is
        present only with vectors.
    squares : Out(:func:`squares_layout` of unsigned(1))
    done : Out(1)
    read_en : In(1)
    read_at : In(:func:`word_layout`)
    row_value : Out(1)
    column_values : Out(array of lanes unsigned(1))
        As the members of :class:`UnitReduction`.
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        at = word_layout(sizes)
        measured = data.ArrayLayout(unsigned(16), sizes.lanes)
        members = {
            "cls": In(2),
            "scale": In(8),
            "word": In(tried_layout(sizes)),
            "values": In(32 * sizes.lanes),
            "measured": In(measured),
            "squares": Out(squares_layout(sizes, unsigned(1))),
            "done": Out(1),
        }
        if sizes.two_copies:
            members |= {
                "measured_t": In(measured),
                "read_en": In(1),
                "read_at": In(at),
                "row_value": Out(1),
                "column_values": Out(data.ArrayLayout(unsigned(1), sizes.lanes)),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        below = BelowZero(bits=WORSE_BITS, most=sizes.max_elements)
        m.submodules.gather = gather = UnitReduction(sizes, reduction=below, halves=1)
        word = Signal.like(self.word)
        m.d.comb += word.eq(self.word)
        for cycle in range(TRIAL_CYCLES):
            word = delayed_record(m, word, f"tried{cycle + 1}", control=("add",))
        m.d.comb += [
            gather.cls.eq(self.cls),
            gather.row.eq(word.at.row),
            gather.word.eq(word.at.word),
            *(getattr(gather, name).eq(word[name]) for name in ("add", "row_end", "last_row")),
            self.squares.eq(gather.squares),
            self.done.eq(gather.done),
        ]
        self._lanes(m, self.measured, gather.values, "")
        if sizes.two_copies:
            self._lanes(m, self.measured_t, gather.values_t, "_t")
            m.d.comb += [
                gather.read_en.eq(self.read_en),
                gather.read_row.eq(self.read_at.row),
                gather.read_word.eq(self.read_at.word),
                self.row_value.eq(gather.row_value),
                self.column_values.eq(gather.column_values),
            ]
        return m

    def _lanes(self, m, measured, values, suffix):
        """Connect the trials of the lanes of a copy."""
        for n in range(self.sizes.lanes):
            m.submodules[f"trial{n}{suffix}"] = trial = ScaleTrial()
            m.d.comb += [
                trial.scale.eq(self.scale),
                trial.value.eq(self.values.word_select(n, 32)),
                Cat(trial.four, trial.six).eq(measured[n]),
                values[n].eq(trial.worse),
            ]
