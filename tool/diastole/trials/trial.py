"""Try mixtures of formats on a user's tensors: the stored form of tensors, and all products."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from diastole.errors import BadInput
from diastole.files.matrices import OPERAND_BY_KEY, operands_of
from diastole.files.tensors import Floats, check_sizes
from diastole.trials.mixtures import Mixture
from diastole_sim.codes.quality import (
    Doubles,
    ResultQuality,
    Worst,
    plain_products,
    product_qualities,
)
from diastole_sim.codes.survey import Survey, stored_bits, survey_converted
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import CLASSES, OPERATIONS

Report = Callable[[int, int], None]
"""Function that receives the number of finished trials, and the number of all trials."""


@dataclass(frozen=True, kw_only=True)
class WorstPlace:
    """Worst place of a mixture. ``product``: name of the result. ``axis``: ``row`` or ``column``.
    ``place``: the worst row or column."""

    product: str
    axis: str
    place: Worst


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Trial of a mixture on the tensors of a file.

    ``surveys``: surveys of the matrices by name, empty if formats are mixed. ``products``:
    qualities by the name of the result. ``bits``, ``bits_both``: stored bits of an element with its
    share of the exponents, in a single copy and in all copies, as means over the operands.
    """

    mixture: Mixture
    surveys: dict[str, Survey]
    products: dict[str, ResultQuality]
    bits: float
    bits_both: float

    @property
    def worst(self) -> WorstPlace | None:
        """Worst row or column of all products; None if all products are exact."""
        losses = [
            WorstPlace(product=name, axis=axis, place=place)
            for name, quality in self.products.items()
            for axis, place in (("row", quality.row), ("column", quality.column))
            if place is not None
        ]
        return min(losses, key=lambda lost: lost.place.snr_db, default=None)

    def reaches(self, least_db: float) -> bool:
        """Return whether all rows and columns have at least ``least_db``."""
        return self.worst is None or self.worst.place.snr_db >= least_db


def class_of(name: str) -> str:
    """Return the class of a tensor by name; ``x`` for a name that is no class."""
    return name.lower() if name.lower() in CLASS_NAMES else "x"


def check_products(where: str, tensors: Mapping[str, Floats], mixture: Mixture) -> None:
    """Check operands by name. :class:`BadInput` if operands do not fit together, or are too
    long."""
    problems: list[str] = []
    for operation in OPERATIONS.values():
        names = operation.operand_names
        if len(operation.products) > 1 or not set(names) <= set(tensors):
            continue
        try:
            operands = {name: tensors[name] for name in names}
            check_sizes(operation.name, operands, mixture.numerics)
        except BadInput as error:
            problems += error.within(where).problems
    if problems:
        raise BadInput(*problems)


def run_trials(
    mixtures: Sequence[Mixture], matrices: Mapping[str, Floats], report: Report
) -> list[Trial]:
    """Return trials of all mixtures on ``matrices``. The operands must fit
    (:func:`check_products`).

    The trials run on every core: numpy works without the interpreter's lock.
    """
    plain = plain_products(operands_of(matrices))
    trials: list[Trial] = []

    def attempt(mixture: Mixture) -> Trial:
        return try_mixture(mixture, matrices, plain)

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for trial in pool.map(attempt, mixtures):
            trials.append(trial)
            report(len(trials), len(mixtures))
    finally:
        pool.shutdown(cancel_futures=True)  # cancels waiting trials after an error or an interrupt
    return trials


def try_mixture(
    mixture: Mixture, matrices: Mapping[str, Floats], plain: Mapping[str, Doubles]
) -> Trial:
    """Return the trial of a mixture. ``plain``: products in float64, by the names of the
    results."""
    converted: dict[str, Quantised] = {}
    surveys: dict[str, Survey] = {}
    for name, matrix in matrices.items():
        operand = OPERAND_BY_KEY.get(name.lower())
        if operand is None and not mixture.uniform:
            continue
        number = class_of(name)
        conversion = Conversion(number, tag=CLASS_NAMES.index(number))
        result = quantise(matrix, conversion, mixture.numerics, seed=0)
        if mixture.uniform:
            surveys[name] = survey_converted(matrix, result)
        if operand is not None:
            converted[operand] = result
    sizes = {name: each.shape[0] * each.shape[1] for name, each in converted.items()}
    bits = {
        name: stored_bits(mixture.numerics.tensor_class(CLASSES[name]), mixture.numerics.block)
        for name in converted
    }
    one, both = (
        sum(sizes[name] * bits[name][place] for name in sizes) / max(sum(sizes.values()), 1)
        for place in (0, 1)
    )
    return Trial(
        mixture=mixture,
        surveys=surveys,
        products=product_qualities(plain, converted, mixture.numerics),
        bits=one,
        bits_both=both,
    )
