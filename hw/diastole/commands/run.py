"""`diastole run`: one matrix product on your data, on the hardware or on the golden model."""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diastole import tensors
from diastole.backend import held, make_device, stored
from diastole.commands.arguments import add_config, add_execution, read_config
from diastole.commands.backends import check_execution
from diastole.config import Config
from diastole.console import fail, note, print_json, say, warn
from diastole.errors import CheckFailed
from diastole.tensors import CLASSES, Array, Floats, Given
from diastole_sim.codes import suffixes, to_codes
from diastole_sim.device_api import OPERATIONS, ConvertedTensor, Device, ProductResult
from diastole_sim.golden.convert import Quantised
from diastole_sim.numerics import CLASS_NAMES


@dataclass(frozen=True)
class Comparison:
    """Elements that were compared with the golden model, and those that differ in a bit."""

    compared: int = 0
    mismatches: int = 0
    first: str | None = None


def add_parser(commands) -> None:
    parser = commands.add_parser(
        "run", help="compute one matrix product", description=__doc__, allow_abbrev=False
    )
    add_config(parser)
    parser.add_argument(
        "--op",
        choices=tuple(OPERATIONS),
        required=True,
        help="Y = X W; dX = dY W^T; dW = X^T dY; or both gradients",
    )
    parser.add_argument(
        "--in",
        metavar="A.npz",
        dest="source",
        type=Path,
        required=True,
        help="the tensors that the product needs: X (M x K), W (K x N), dY (M x N)",
    )
    parser.add_argument(
        "--out",
        metavar="B.npz",
        dest="target",
        type=Path,
        required=True,
        help="Y, dX, dW, and X_q, W_q, dY_q, the operands as converted (two copies where groups "
        "are vectors: X_q_k, X_q_m, W_q_n, W_q_k, dY_q_n, dY_q_m)",
    )
    parser.add_argument(
        "--codes",
        action="store_true",
        help="take and write operands as element codes and scales too: X_codes, X_scales, "
        "X_tensor_scale, X_format",
    )
    add_execution(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    check_execution(arguments)
    tensors.check_writable(arguments.target)
    op = arguments.op
    given = tensors.read(arguments.source, op, config.numerics, codes=arguments.codes)
    sizes = tensors.check_sizes(op, given.tensors, config.numerics)
    for text in given.notes:
        note(text)
    for text in tensors.warnings(given.tensors, config.numerics.special):
        warn(text)
    with make_device(
        arguments.backend,
        config,
        seed=arguments.seed,
        stalls=arguments.stalls,
        trace=arguments.trace,
    ) as device:
        result = multiply(device, op, operands(device, op, given))
        written = outputs(result)
        found = {name: stored(operand) for name, operand in result.operands.items()}
    comparison, codes = Comparison(), {}
    if arguments.verify or arguments.codes:
        with make_device("golden", config, seed=arguments.seed) as golden:
            standard = operands(golden, op, given)
            if arguments.verify:
                comparison = compare(written, outputs(multiply(golden, op, standard)))
            if arguments.codes:
                codes = code_arrays(found, standard)
    tensors.write(arguments.target, written | codes)
    record = summary(config, arguments.backend, sizes, result, comparison, arguments.verify)
    if arguments.json:
        print_json(record)
    else:
        say(describe(record, arguments.target))
    if comparison.mismatches:
        count = f"{comparison.mismatches} of {comparison.compared}"
        fail(f"{count} elements differ from the golden model; {comparison.first}")
        return 1
    return 0


def operands(device: Device, op: str, given: Given) -> dict[str, ConvertedTensor]:
    """The operands of ``op`` on the device, by name: at step 0, with the tags of layer 0."""
    found: dict[str, ConvertedTensor] = {}
    for name in OPERATIONS[op]:
        tensor, tensor_class = given.tensors[name], CLASSES[name]
        if isinstance(tensor, Quantised):
            found[name] = held(device, tensor)
        else:
            tag = CLASS_NAMES.index(tensor_class)
            scale = given.scales.get(name)
            found[name] = device.convert(tensor, tensor_class, tag=tag, scale=scale)
    return found


def multiply(device: Device, op: str, converted: dict[str, ConvertedTensor]) -> ProductResult:
    """The product ``op`` of converted tensors by name."""
    return getattr(device, op)(*(converted[name] for name in OPERATIONS[op]))


def outputs(result: ProductResult) -> dict[str, Floats]:
    """The floats that `run` writes: the results by name, and the operands after conversion as
    NAME_q, or where there are two copies as NAME_q_AXIS."""
    quantised = {
        f"{name}_q" + (axis and f"_{axis}"): values
        for name, operand in result.operands.items()
        for axis, values in operand.copy_values().items()
    }
    return {**result.values, **quantised}


def code_arrays(
    found: dict[str, Quantised], standard: dict[str, ConvertedTensor]
) -> dict[str, Array]:
    """What ``--codes`` writes besides: the operands as their formats define them.

    ``standard``: the golden model's, for the scales, which folding hides. CheckFailed where the
    device stored what has no code under them.
    """
    arrays: dict[str, Array] = {}
    for name, tensor in found.items():
        try:
            copies = to_codes(tensor, stored(standard[name]))
        except ValueError as error:
            raise CheckFailed(f"{name}_codes cannot be written: {error}") from error
        arrays[f"{name}_format"] = np.array(str(copies[0].form))
        if copies[0].tensor_scale is not None:
            arrays[f"{name}_tensor_scale"] = np.float64(copies[0].tensor_scale)
        for suffix, copy in zip(suffixes(CLASSES[name], tensor.chosen), copies, strict=True):
            arrays[f"{name}_codes{suffix}"] = copy.codes
            if copy.scales is not None:
                arrays[f"{name}_scales{suffix}"] = copy.scales
    return arrays


def compare(got: dict[str, Floats], expected: dict[str, Floats]) -> Comparison:
    """Compares tensors of equal names bit for bit; the first difference is worded."""
    compared = mismatches = 0
    first = None
    for name, tensor in got.items():
        differs = tensor.view(np.uint32) != expected[name].view(np.uint32)
        compared += differs.size
        mismatches += int(differs.sum())
        if first is None and differs.any():
            row, column = np.argwhere(differs)[0]
            first = (
                f"first {name}[{row}, {column}] = {tensor[row, column]!s}, "
                f"expected {expected[name][row, column]!s}"
            )
    return Comparison(compared, mismatches, first)


def summary(
    config: Config,
    backend: str,
    sizes: tensors.Sizes,
    result: ProductResult,
    comparison: Comparison,
    verify: bool,
) -> dict[str, Any]:
    """The object of ``--json``; what only a clock can tell is null without one."""
    macs = sizes.macs(result.op)
    return {
        "op": result.op,
        "backend": backend,
        **asdict(sizes),
        **_counted(result, macs, config.macs),
        "macs": macs,
        "exact": result.exact,
        "overflow": result.overflow,
        "saturated": sum(operand.saturated for operand in result.operands.values()),
        "underflowed": sum(operand.underflowed for operand in result.operands.values()),
        "nan": [name for name, operand in result.operands.items() if operand.nan],
        "inf": [name for name, operand in result.operands.items() if operand.inf],
        "verified": verify and comparison.mismatches == 0,
        "mismatches": comparison.mismatches,
        "compared": comparison.compared,
        "config_sha256": config.config_sha256,
    }


def _counted(result: ProductResult, macs: int, multipliers: int) -> dict[str, Any]:
    counters, causes = result.counters, ("load", "store", "accumulator", "turn")
    if counters is None:
        keys = ("cycles", "convert_cycles", "utilisation", "read_bytes", "write_bytes")
        return dict.fromkeys(keys) | {"stalls": dict.fromkeys(causes)}
    return {
        "cycles": counters.cycles,
        "convert_cycles": sum(tensor.convert_cycles for tensor in result.operands.values()),
        "utilisation": macs / (counters.cycles * multipliers),
        "read_bytes": counters.read_bytes,
        "write_bytes": counters.write_bytes,
        "stalls": {cause: getattr(counters, f"stall_{cause}_cycles") for cause in causes},
    }


def describe(record: dict[str, Any], target: Path) -> str:
    """A few lines for people."""
    lines = [
        f"{record['op']} of M = {record['m']}, K = {record['k']}, N = {record['n']} "
        f"on {record['backend']}: wrote {target}",
        "every element is the product of the converted operands, rounded once"
        if record["exact"]
        else "not exact: some products lie beyond accumulator.fraction, or beyond cell.window",
    ]
    if record["cycles"] is not None:
        lines.append(
            f"{record['cycles']} cycles, utilisation {record['utilisation']:.1%}, "
            f"{record['read_bytes']} bytes read, {record['write_bytes']} written"
        )
    if record["saturated"]:
        lines.append(f"{record['saturated']} elements saturated when converted")
    if record["underflowed"]:
        lines.append(f"{record['underflowed']} elements became zeros when converted")
    if record["verified"]:
        lines.append(f"{record['compared']} elements equal to the golden model, bit for bit")
    return "\n".join(lines)
