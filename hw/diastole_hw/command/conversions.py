"""Pass conversions of commands and images of chains to the converter, with scales from scale
slots."""

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import LARGEST, ONE
from diastole_hw.command.scale_slots import MAGNITUDE_BITS, ScaleSlots
from diastole_hw.command.width_decision import WidthDecision
from diastole_hw.convert.converter_control import ConverterControl, convert_layout
from diastole_hw.convert.lanes.scale import tensor_scale
from diastole_hw.convert.tile_order import cut_layout
from diastole_hw.data_registers import data_register
from diastole_hw.plan.plan import Plan
from diastole_hw.vector.vector_control import image_layout
from diastole_hw.vector.vector_tables import WIDTH_PORTS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import CHOICE_FIELDS


def conversion_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a ``convert`` command. Its ``slot`` is the number of the scale slot + 1,
    0 for none. On a machine that decides widths, two flags follow: whether the slot supplies the
    width, and whether the conversion decides the next width."""
    flags = dict.fromkeys(CHOICE_FIELDS if plan.has_choices else (), 1)
    members = convert_layout(planes=plan.planar).members
    return data.StructLayout(members | {"slot": unsigned(8)} | flags)


class Conversions(wiring.Component):
    """Pass conversions of commands and images of chains to the converter, one at a time, images
    first. Read the scale of a conversion from its slot, and write the magnitude of the tensor into
    the slot.

    A slot supplies the largest magnitude of its tensor in earlier steps; a slot without such a step
    counts as 1.0. An image without a slot has the scale 1.

    Timing: a conversion is accepted when none is in progress, and offered to the converter in the
    next cycle. An image, and a conversion with a slot, take 2 cycles more. On a machine with tensor
    scales, a slot takes another 1 + ``slot_words`` cycles. ``done`` and ``image_done`` are in the
    cycle of the converter's ``done``; the next conversion is accepted from the following cycle on.
    A conversion that decides the next width is done when
    :class:`diastole_hw.command.width_decision.WidthDecision` is done. ``ready`` of a command
    depends on whether there is an image.

    Parameters
    ----------
    plan : Plan
        Plan of a machine with a vector unit.

    Members
    -------
    requested : In(stream of conversion_layout(plan))
        Conversions of commands.
    image : In(stream of image_layout(choices=plan.has_choices))
        Images of chains, whose rows go to the converter.
    step : In(32)
        Step of the random bits of images.
    done, image_done : Out(1), Out(1)
        Pulses at the end of a command's conversion and of an image.
    of_image : Out(1)
        True if the current or last conversion is an image of a chain.
    cls : Out(2)
        Class of the current or last conversion.
    converter : Out(ConverterControl(planes=plan.planar, streamed=True))
    amax_en, amax_at, amax : Out(1), Out(range(plan.vector.slot_entries)), In(32)
        Read port of the slots; a word arrives 1 cycle after its address.
    amax_put_en, amax_put_at, amax_put : Out(1), Out(range(plan.vector.slot_entries)), Out(32)
        Write port of the slots.
    eps, widths, width_put_en, width_put : In(18), In(2), Out(1), Out(2)
        Threshold and widths of the slot, read and written, on a machine that decides widths.
    """

    requested: stream.Interface
    image: stream.Interface
    converter: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        ports = {name: each for name, each in WIDTH_PORTS.items() if name != "last"}
        assert plan.vector is not None, "a machine without a vector unit has no scale slots"
        self.vector = plan.vector
        entry = Out(range(self.vector.slot_entries))
        super().__init__(
            {
                "requested": In(stream.Signature(conversion_layout(plan))),
                "image": In(stream.Signature(image_layout(choices=plan.has_choices))),
                "step": In(32),
                "done": Out(1),
                "image_done": Out(1),
                "of_image": Out(1),
                "cls": Out(2),
                "converter": Out(ConverterControl(planes=plan.planar, streamed=True)),
                "amax_en": Out(1),
                "amax_at": entry,
                "amax": In(32),
                "amax_put_en": Out(1),
                "amax_put_at": entry,
                "amax_put": Out(32),
            }
            | ({name: each.flip() for name, each in ports.items()} if plan.has_choices else {})
        )

    def elaborate(self, platform):
        m = Module()
        job = data_register(conversion_layout(self.plan), name="job")
        cut = data_register(cut_layout(), name="cut")
        control, command = self.converter, self.converter.command.p
        common = [name for name in command.shape().members if name not in ("streamed", "cut")]
        decision = self._width(m, job) if self.plan.has_choices else None
        m.d.comb += [
            *(command[name].eq(job[name]) for name in common),
            command.streamed.eq(self.of_image),
            command.cut.eq(cut),
            self.cls.eq(job.cls),
        ]
        slots = self._slots(m, job)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.image.ready.eq(1), self.requested.ready.eq(~self.image.valid)]
                # No conversion in progress: accept an image or a command.
                with m.If(self.image.valid):
                    m.d.sync += [self.of_image.eq(1), cut.eq(self.image.p.cut), *self._image(job)]
                    m.next = "SLOT"
                with m.Elif(self.requested.valid):
                    # Load all fields: values unknown at power-up must not reach the converter.
                    m.d.sync += [self.of_image.eq(0), cut.eq(0), job.eq(self.requested.payload)]
                    m.next = "OFFER"
                    with m.If(self.requested.p.slot != 0):
                        m.next = "SLOT"
            # Address the slot, or start to read its words.
            with m.State("SLOT"):
                m.next = "SCALE"
                if slots is None:
                    m.d.comb += self.amax_en.eq(job.slot != 0)
                else:
                    with m.If(job.slot != 0):
                        m.d.comb += slots.start.eq(1)
                        m.next = "MAGNITUDES"
            if slots is not None:
                # Read the magnitudes of earlier steps.
                with m.State("MAGNITUDES"), m.If(slots.done):
                    m.next = "SCALE"
            # Compute the scale from the magnitude.
            with m.State("SCALE"):
                m.d.sync += job.scale.eq(0 if slots is None else self._scale(m, job, slots))
                if decision is not None:
                    with m.If(job.by_slot):
                        m.d.sync += job.planes.eq(self.widths[1])
                m.next = "OFFER"
            # Offer the conversion to the converter.
            with m.State("OFFER"):
                m.d.comb += control.command.valid.eq(1)
                with m.If(control.command.ready):
                    m.next = "UNDER WAY"
            # Wait for the converter.
            with m.State("UNDER WAY"):
                with m.If(control.done):
                    if decision is None:
                        self._end(m, job, slots)
                    else:
                        m.d.comb += decision.start.eq(job.decides)
                        with m.If(job.decides):
                            m.next = "DECIDE"
                        with m.Else():
                            self._end(m, job, slots)
            if decision is not None:
                # Wait for the decision about the next width.
                with m.State("DECIDE"), m.If(decision.done):
                    self._end(m, job, slots)
        return m

    def _slots(self, m, job):
        """Add and return the unit that keeps magnitudes over steps, beside the table. Return None
        on a machine without tensor scales: its slots hold the magnitude of the last conversion."""
        shape, magnitude = self.vector, self.converter.amax
        if shape.slot_words == 1:
            m.d.comb += [
                self.amax_at.eq(job.slot - 1),
                self.amax_put_at.eq(job.slot - 1),
                self.amax_put.eq(magnitude),
            ]
            return None
        m.submodules.slots = slots = ScaleSlots(shape)
        m.d.comb += [
            slots.slot.eq(job.slot - 1),
            slots.step.eq(job.step),
            slots.amax.eq(magnitude),
            self.amax_en.eq(slots.read_en),
            self.amax_at.eq(slots.read_at),
            slots.word.eq(self.amax),
            self.amax_put_en.eq(slots.put_en),
            self.amax_put_at.eq(slots.put_at),
            self.amax_put.eq(slots.put),
        ]
        return slots

    def _end(self, m, job, slots):
        """End the current conversion and write the magnitude into its slot."""
        noted = self.amax_put_en if slots is None else slots.note
        m.d.comb += [
            self.done.eq(~self.of_image),
            self.image_done.eq(self.of_image),
            noted.eq(job.slot != 0),
        ]
        if self.plan.has_choices:
            m.d.comb += self.width_put_en.eq(job.by_slot | job.decides)
        m.next = "IDLE"

    def _width(self, m, job):
        """Compute the widths that a conversion writes into its slot. Return the unit that decides
        the next width."""
        decision, control = WidthDecision(), self.converter
        m.submodules.decision = decision
        before = data_register(self.widths.shape(), name="widths_before")
        threshold = data_register(self.eps.shape(), name="threshold")
        slot_read = Signal()  # eps and widths of the slot are valid
        m.d.sync += slot_read.eq(self.amax_en)
        with m.If(slot_read):
            m.d.sync += [before.eq(self.widths), threshold.eq(self.eps)]
        m.d.comb += [
            decision.num.eq(control.improvement_num),
            decision.den.eq(control.improvement_den),
            decision.threshold.eq(threshold),
            self.width_put[0].eq(Mux(job.by_slot, before[1], before[0])),
            self.width_put[1].eq(Mux(job.decides, decision.wide, before[1])),
        ]
        return decision

    def _image(self, job):
        """Yield the assignments of ``job`` for an image that a chain requests."""
        image, plan = self.image.p, self.plan
        second = image.address + image.offset
        yield from (job[name].eq(image[name]) for name in ("cls", "rows", "cols", "tag", "slot"))
        yield from (job.source.eq(0), job.destination.eq(image.address), job.step.eq(self.step))
        copies = [plan.tensor_class(number).two_copies for number in range(len(CLASS_NAMES))]
        yield job.destination_t.eq(Mux(Array(map(int, copies))[image.cls], second, 0))
        if plan.has_choices:
            yield from (job[name].eq(image[name]) for name in CHOICE_FIELDS)
        if plan.planar:
            yield job.planes.eq(Array(count - 1 for count in plan.max_planes)[image.cls])

    def _scale(self, m, job, slots):
        """Return the scale field of the command, computed from the magnitudes of the slot; 0 for a
        class without a tensor scale."""
        value = Signal(MAGNITUDE_BITS, name="magnitude")
        before = Mux(slots.largest == 0, ONE, slots.largest)  # without earlier steps
        before = Mux(slots.largest[23:].all(), LARGEST, before)  # a program has loaded Inf or NaN
        m.d.comb += value.eq(Mux(job.slot == 0, 0, before))
        scales: list[Value] = [Const(0, 8)] * len(CLASS_NAMES)
        for number in range(len(CLASS_NAMES)):
            chosen = self.plan.tensor_class(number)
            if chosen.has_tensor_scale:
                scales[number] = tensor_scale(m, number, chosen, value, self.plan.numerics.margin)
        return Array(scales)[job.cls]
