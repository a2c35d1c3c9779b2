"""Lower the updates of parameters, at once or after all gradients are known."""

from collections.abc import Mapping
from dataclasses import replace

from diastole_sim.lowering.parameters import Parameters, PlacedBias, PlacedWeight
from diastole_sim.lowering.schedule import ProgramSchedule
from diastole_sim.lowering.tensors import ProgramTensors
from diastole_sim.program.chain import INVERSE_LOSS_SCALE, LOSS_SCALE, Chain
from diastole_sim.program.chains.elementwise import added
from diastole_sim.program.chains.sums import (
    bias_squares,
    bias_sums,
    clip_factor,
    column_squares,
    trust_ratio,
)
from diastole_sim.program.chains.updates import CLIP_FACTOR, TRUST_RATIO
from diastole_sim.program.fusion import ChainPart, Value
from diastole_sim.program.memory_plan import BoundStream, PlannedImage, stream_of
from diastole_sim.program.program_tables import FIRST_WRITTEN
from diastole_sim.program.recipe import Lars
from diastole_sim.spec.image import round_up
from diastole_sim.spec.stream_table import Descriptor, Kind

LOSS, CLIP = FIRST_WRITTEN, FIRST_WRITTEN + 1
"""Constants that chains write: the loss of the step, and the clip factor of the gradients."""
FIRST_RATIO, LAST_RATIO = CLIP + 1, min(INVERSE_LOSS_SCALE, LOSS_SCALE) - 1
"""Constants of trust ratios."""


class Updates:
    """Updates of a training step."""

    def __init__(self, tensors: ProgramTensors, parameters: Parameters, schedule: ProgramSchedule):
        self.tensors, self.parameters, self.schedule = tensors, parameters, schedule
        self.recipe, self.plan = tensors.recipe, tensors.plan
        self._ratios: dict[str, int] = {}

    def watch(self, stream: BoundStream) -> BoundStream:
        """Return the stream, with the watch bit set under loss scaling: a number that is not finite
        is then an overflow."""
        watch = int(self.recipe.scaled)
        return replace(stream, descriptor=replace(stream.descriptor, watch=watch))

    def weight(self, weight: PlacedWeight, gradient: Value) -> None:
        """Append the update of a weight, or store the gradient if updates wait."""
        if self.recipe.waits:
            assert weight.gradient is not None
            self.schedule.keep(gradient, weight.gradient)
            return
        self._update_weight(weight, gradient)

    def add(self, weight: PlacedWeight, gradient: Value, *, microbatch: int) -> None:
        """Append the sum of a microbatch's gradient and of the gradients before, and the update
        after the last microbatch."""
        total, last = weight.gradient, self.recipe.microbatches - 1
        if last == 0:
            self.weight(weight, gradient)
            return
        assert total is not None
        if microbatch == 0:
            self.schedule.keep(gradient, total)
            return
        updates = microbatch == last and not self.recipe.waits
        whole = f"{weight.name} gradient of all microbatches"
        self.schedule.add(
            ChainPart(
                chain=added(),
                shape=(weight.inputs, weight.outputs),
                inputs={"input": total, "other": gradient},
                outputs={"value": whole if updates else total},
            )
        )
        if updates:
            self._update_weight(weight, whole)

    def bias(self, bias: PlacedBias) -> None:
        """Append the update of a bias, unless updates wait."""
        if not self.recipe.waits:
            self._sum_bias(bias)
            self._update_bias(bias)

    def write_waiting(self) -> None:
        """Append the updates that wait for all gradients. Everything that may overflow is computed
        before the first update, so a step is skipped as a whole. Sums of biases come first too,
        unless the sum of all squares covers them."""
        trained = [each for each in self.parameters.in_order() if _is_trained(each)]
        for each in trained:
            if isinstance(each, PlacedBias):
                self._sum_bias(each)
        if self.recipe.clip is not None:
            self._clip(self.recipe.clip, trained)
        for each in trained:
            if isinstance(each, PlacedWeight):
                self._trust_ratio(each)
        for each in trained:
            if isinstance(each, PlacedBias):
                self._update_bias(each)
            else:
                assert each.gradient is not None
                self._update_weight(each, each.gradient)

    def _update_weight(self, weight: PlacedWeight, gradient: Value | BoundStream) -> None:
        """Append the update of a weight. The update makes the image too, unless the weight is
        rounded first."""
        group, rounds = self.recipe.group(weight.name), self.recipe.rounds
        image: dict[str, PlannedImage] = {} if rounds else {"image": weight.image}
        part = ChainPart(
            chain=self._with_constants(
                self.recipe.update(bias=False, image=not rounds, group=group),
                self._numbers(group, weight),
                group,
            ),
            shape=(weight.inputs, weight.outputs),
            inputs={"g": gradient, **weight.state},
            outputs={**weight.state, **image},
            numbers=self._numbers(group, weight),
            skip=self.recipe.scaled,
            update=True,
        )
        self.schedule.add(part)

    def _update_bias(self, bias: PlacedBias) -> None:
        group = self.recipe.group(bias.name)
        chain = self.recipe.update(bias=True, group=group)
        shape, state = (1, bias.outputs), bias.state
        gradient = bias.sums
        if bias.summed is not None:
            chain = self.recipe.update(bias=False, image=False, group=group)
            shape = self.plan.folded(bias.outputs)
            state = {name: each for name, each in bias.folded.items() if name != "g"}
            gradient = bias.folded["g"]
        assert gradient is not None
        if isinstance(self.recipe.optimisers[group], Lars):
            chain = chain.with_values(**{TRUST_RATIO: 1.0})
        part = ChainPart(
            chain=self._with_constants(chain, self._numbers(group), group),
            shape=shape,
            inputs={"g": gradient, **state},
            outputs=state,
            numbers=self._numbers(group),
            skip=self.recipe.scaled,
            update=True,
            apart=True,
        )
        self.schedule.add(part)

    def _sum_bias(self, bias: PlacedBias) -> None:
        """Append the sum of a bias's gradient, if the update of the bias reads the sum. An overflow
        of the sum is noted."""
        if bias.summed is None or bias.sums is None:
            return
        part = ChainPart(
            chain=bias_sums(),
            shape=(1, bias.outputs),
            inputs={"db": bias.sums},
            outputs={"sums": self.watch(bias.summed)},
            skip=self.recipe.scaled,
            update=True,
            apart=True,
        )
        self.schedule.add(part)

    def _with_constants(self, chain: Chain, numbers: Mapping[str, int], group: int) -> Chain:
        """Return the chain with the constants of an optimiser. ``numbers``: constants that
        change."""
        values = self.recipe.optimisers[group].constants()
        missing = [
            name
            for name, value in chain.constants.items()
            if value is None and name not in values and name not in numbers
        ]
        if missing:
            names = ", ".join(values) or "none"
            raise ValueError(
                f"{chain.name} uses K[{missing[0]}], which has no value; the constants are {names}"
            )
        used = {name: value for name, value in values.items() if name in chain.constants}
        return chain.with_values(**used)

    def _numbers(self, group: int, weight: PlacedWeight | None = None) -> dict[str, int]:
        """Return the numbers of the constants that change, for a group of parameters or for a
        weight of the group."""
        numbers = dict(self.tensors.step_numbers[group])
        if self.recipe.clip:
            numbers[CLIP_FACTOR] = CLIP
        if weight is not None and weight.name in self._ratios:
            numbers[TRUST_RATIO] = self._ratios[weight.name]
        return numbers

    def _trust_ratio(self, weight: PlacedWeight) -> None:
        """Append the trust ratio of a weight, if the optimiser of the weight is LARS. ValueError
        for more weights than the machine has constants."""
        optimiser = self.recipe.optimisers[self.recipe.group(weight.name)]
        if not isinstance(optimiser, Lars):
            return
        number = FIRST_RATIO + len(self._ratios)
        if number > LAST_RATIO:
            raise ValueError(
                f"lars trains at most {LAST_RATIO - FIRST_RATIO + 1} weights: the machine has a "
                "constant for the trust ratio of each"
            )
        self._ratios[weight.name] = number
        assert weight.gradient is not None
        sources = {"w": weight.state["w"], "g": weight.gradient}
        factor = None
        if self.recipe.clip is not None:
            factor = CLIP_FACTOR
        elif self.recipe.scaled:
            factor = str(INVERSE_LOSS_SCALE)
        ratio = Descriptor(kind=Kind.CONSTANT, address=number)
        part = ChainPart(
            chain=trust_ratio(factor=factor).with_values(
                decay=optimiser.weight_decay, eta=optimiser.trust
            ),
            shape=(1, weight.outputs),
            inputs={name: self._squares(weight, name, each) for name, each in sources.items()},
            outputs={"ratio": BoundStream(name=f"K[{number}]", descriptor=ratio)},
            numbers={CLIP_FACTOR: CLIP} if self.recipe.clip is not None else {},
            skip=self.recipe.scaled,
            apart=True,
        )
        self.schedule.add(part)

    def _squares(self, weight: PlacedWeight, name: str, source: BoundStream) -> BoundStream:
        """Append the sums of the squares of every column, and return the stream of the sums."""
        area = self.plan.tensor(
            f"{weight.name} squares of {name}", Kind.F32, 1, weight.outputs, zeros=True
        )
        sums = Descriptor(kind=Kind.COLUMN, address=area.address)
        part = ChainPart(
            chain=column_squares(),
            shape=(weight.inputs, weight.outputs),
            inputs={"values": source},
            outputs={"sums": BoundStream(name=area.name, descriptor=sums)},
            skip=self.recipe.scaled,
            apart=True,
        )
        self.schedule.add(part)
        return stream_of(area)

    def _clip(self, norm: float, trained: list[PlacedWeight | PlacedBias]) -> None:
        """Append the clip factor of all gradients, from the squares of every column of each
        gradient."""
        parts = [round_up(4 * each.outputs, self.plan.beat_bytes) for each in trained]
        size = sum(parts) // 4
        # No command writes the bytes between the sums of two parameters.
        area = self.plan.tensor("squares of columns", Kind.F32, 1, size, zeros=True)
        place = area.address
        for number, (each, length) in enumerate(zip(trained, parts, strict=True), 1):
            if isinstance(each, PlacedBias):
                chain, name, source, rows = bias_squares(), "db", each.sums, 1
            else:
                chain, name, source, rows = column_squares(), "values", each.gradient, each.inputs
            assert source is not None
            sums = Descriptor(kind=Kind.COLUMN, address=place)
            # The clip factor reads the whole area, and must wait for the last sums.
            label = area.name if number == len(trained) else f"squares at {place}"
            part = ChainPart(
                chain=chain,
                shape=(rows, each.outputs),
                inputs={name: source},
                outputs={"sums": BoundStream(name=label, descriptor=sums)},
                skip=self.recipe.scaled,
                apart=True,
            )
            self.schedule.add(part)
            place += length
        factor = Descriptor(kind=Kind.CONSTANT, address=CLIP)
        outputs = {"factor": BoundStream(name=f"K[{CLIP}]", descriptor=factor)}
        if self.recipe.scaled:
            total = self.plan.vector("sum of squares", Kind.ROW, 1)
            outputs["sum"] = self.watch(stream_of(total))
        part = ChainPart(
            chain=clip_factor(scaled=self.recipe.scaled).with_values(max_norm=norm),
            shape=(1, size),
            inputs={"squares": stream_of(area)},
            outputs=outputs,
            skip=self.recipe.scaled,
            apart=True,
        )
        self.schedule.add(part)


def _is_trained(parameter: PlacedWeight | PlacedBias) -> bool:
    if isinstance(parameter, PlacedBias):
        return parameter.sums is not None
    return parameter.trainable
