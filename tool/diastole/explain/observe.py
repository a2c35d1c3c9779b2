"""Run products in Verilator, in sequence, and read the work of the machine from the waves."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from diastole.backend import make_device
from diastole.config.keys import Config
from diastole.errors import BadInput, CheckFailed
from diastole.execution import Execution
from diastole.explain.shown_conversion import conversions_of
from diastole.explain.shown_operands import Operands, ShownOperand
from diastole.explain.shown_run import ShownRun, WavesDisagree
from diastole.explain.story import runs_of, signals
from diastole.explain.waves import read_waves
from diastole.report.wave_views import SCOPE
from diastole_sim.device.interface import ConvertedTensor, DeviceProtocol, Floats, ProductResult
from diastole_sim.golden.compare import GoldenComparison, Readable
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.operations import CLASSES, OPERANDS, OPERATIONS, Tensor


def observe(
    config: Config, names: Sequence[str], axes: Mapping[str, int], seed: int
) -> tuple[Operands, list[ProductResult], list[ShownRun]]:
    """Run every operation alone, on one set of tensors. Return the operands, the results, and the
    runs as read from the waves. CheckFailed if results or waves differ from the golden model."""
    random = np.random.default_rng(seed)
    tensors = {
        tensor.name: random.standard_normal((axes[tensor.rows], axes[tensor.columns])).astype(
            np.float32
        )
        for tensor in OPERANDS
    }
    with tempfile.TemporaryDirectory() as folder:
        waves = Path(folder) / "waves.vcd"
        with make_device(Execution(seed=seed, trace=waves), config, views=False) as device:
            results, stored = _products(device, names, tensors)
        expected, golden = _products(NumpyDevice(config.numerics, seed=seed), names, tensors)
        comparison = GoldenComparison()
        for name, tensor in stored.items():
            comparison.operand(name, tensor, golden[name])
        for got, reference in zip(results, expected, strict=True):
            comparison.result(got, reference)
        if comparison.mismatches:
            raise CheckFailed(f"the hardware differs from the golden model: {comparison.first}")
        try:
            operands = {
                each.name: ShownOperand(
                    floats=tensors[each.name],
                    stored=golden[each.name],
                    conversions=conversions_of(
                        tensors[each.name],
                        golden[each.name],
                        config.numerics,
                        seed=seed,
                        tag=each.number,
                    ),
                )
                for each in OPERANDS
            }
            _require_finite(operands)
            seen = read_waves(waves, SCOPE, signals(config.plan))
            return operands, results, runs_of(seen, config.plan, operands)
        except WavesDisagree as error:
            raise CheckFailed(f"the waves differ from the computed results: {error}") from error


def _require_finite(operands: Operands) -> None:
    """Raise BadInput if a format of the standard has converted large elements to Inf or NaN."""
    for name, operand in operands.items():
        if not all(np.isfinite(operand.values(copy)).all() for copy in range(operand.copies)):
            key = f"overflow.{CLASSES[name]}"
            raise BadInput(
                f"{name} has Inf or NaN, because {key} = specification; explain shows only "
                f"finite numbers: give --set {key}=saturate"
            )


def _products(
    device: DeviceProtocol, names: Sequence[str], tensors: dict[str, Floats]
) -> tuple[list[ProductResult], dict[str, Quantised]]:
    """Return the results of all operations, and the operands as stored."""
    operands = {each.name: _converted(device, each, tensors[each.name]) for each in OPERANDS}
    results = [
        getattr(device, name)(*(operands[operand] for operand in OPERATIONS[name].operand_names))
        for name in names
    ]
    return results, {name: _read(tensor) for name, tensor in operands.items()}


def _converted(device: DeviceProtocol, each: Tensor, values: Floats) -> ConvertedTensor:
    return device.convert(values, each.tensor_class, tag=each.number)


def _read(tensor: ConvertedTensor) -> Quantised:
    assert isinstance(tensor, Readable)
    return tensor.read()
