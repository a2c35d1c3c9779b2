"""Mixtures of formats on a user's tensors: every tensor as it is stored, every product."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from diastole.errors import BadInput
from diastole.files.matrices import BY_SMALL_NAME, operands_of
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
"""Called with what is done, and all."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Where a mixture is worst: a ``product`` by the name of its result, a ``row`` or ``column``
    of it, and that one."""

    product: str
    axis: str
    place: Worst


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A mixture on the tensors of a file.

    ``surveys``: of every matrix by name, none where formats are mixed. ``products``: by the name of
    the result. ``bits``, ``bits_both``: stored bits of an element with its share of the exponents,
    in one copy and in all copies; means over the operands.
    """

    mixture: Mixture
    surveys: dict[str, Survey]
    products: dict[str, ResultQuality]
    bits: float
    bits_both: float

    @property
    def lost(self) -> Lost | None:
        """The worst row or column of all products; None where all are exact."""
        found = [
            Lost(product=name, axis=axis, place=place)
            for name, quality in self.products.items()
            for axis, place in (("row", quality.row), ("column", quality.column))
            if place is not None
        ]
        return min(found, key=lambda lost: lost.place.snr_db, default=None)

    def reaches(self, least_db: float) -> bool:
        """Whether no row and no column has less."""
        return self.lost is None or self.lost.place.snr_db >= least_db


def class_of(name: str) -> str:
    """The class of a tensor by its name; ``x`` for names that say nothing."""
    return name.lower() if name.lower() in CLASS_NAMES else "x"


def check_products(where: str, tensors: Mapping[str, Floats], mixture: Mixture) -> None:
    """Raises :class:`BadInput` if operands, by name, do not fit each other, or are too long."""
    problems: list[str] = []
    for operation in OPERATIONS.values():
        names = operation.operand_names
        if len(operation.products) > 1 or not set(names) <= set(tensors):
            continue
        try:
            given = {name: tensors[name] for name in names}
            check_sizes(operation.name, given, mixture.numerics)
        except BadInput as error:
            problems += (f"{where}: {problem}" for problem in error.problems)
    if problems:
        raise BadInput(*problems)


def run_trials(
    mixtures: Sequence[Mixture], matrices: Mapping[str, Floats], report: Report
) -> list[Trial]:
    """Every mixture on ``matrices``; their operands must fit (:func:`check_products`).

    On every core: numpy works without the interpreter's lock.
    """
    plain = plain_products(operands_of(matrices))
    found: list[Trial] = []

    def attempt(mixture: Mixture) -> Trial:
        return try_mixture(mixture, matrices, plain)

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for trial in pool.map(attempt, mixtures):
            found.append(trial)
            report(len(found), len(mixtures))
    finally:
        pool.shutdown(cancel_futures=True)  # of what waits when one fails, or is interrupted
    return found


def try_mixture(
    mixture: Mixture, matrices: Mapping[str, Floats], plain: Mapping[str, Doubles]
) -> Trial:
    """One of them; ``plain``: the products in float64, by the names of the results."""
    converted: dict[str, Quantised] = {}
    surveys: dict[str, Survey] = {}
    for name, matrix in matrices.items():
        operand = BY_SMALL_NAME.get(name.lower())
        if operand is None and not mixture.uniform:
            continue
        number = class_of(name)
        asked = Conversion(number, tag=CLASS_NAMES.index(number))
        result = quantise(matrix, asked, mixture.numerics, seed=0)
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
