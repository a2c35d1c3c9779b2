"""`diastole run`: one matrix product on your data, on the hardware or on the golden model."""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diastole import tensors
from diastole.backend import make_device
from diastole.commands.arguments import add_config, add_execution, read_config
from diastole.commands.backends import check_execution
from diastole.config import Config
from diastole.console import fail, note, print_json, say, warn
from diastole_sim.device_api import OPERATIONS, Counters, Device, ProductResult


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
        help="Y, dX, dW, and X_q, W_q, dY_q, the operands as converted",
    )
    add_execution(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    check_execution(arguments)
    tensors.check_writable(arguments.target)
    data, notes = tensors.read(arguments.source, arguments.op)
    sizes = tensors.check_sizes(arguments.op, data, config.numerics)
    for text in notes:
        note(text)
    for text in tensors.warnings(data):
        warn(text)
    with make_device(
        arguments.backend,
        config,
        seed=arguments.seed,
        stalls=arguments.stalls,
        trace=arguments.trace,
    ) as device:
        result = multiply(device, arguments.op, data)
        written = outputs(result)
    comparison = Comparison()
    if arguments.verify:
        with make_device("golden", config, seed=arguments.seed) as golden:
            comparison = compare(written, outputs(multiply(golden, arguments.op, data)))
    tensors.write(arguments.target, written)
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


def multiply(device: Device, op: str, data: dict[str, tensors.Floats]) -> ProductResult:
    """The product ``op`` of float32 tensors by name, at step 0, with the tags of layer 0."""
    return getattr(device, op)(*(data[name] for name in OPERATIONS[op]))


def outputs(result: ProductResult) -> dict[str, tensors.Floats]:
    """What `run` writes: the results by name, and the operands after conversion as NAME_q."""
    quantised = {f"{name}_q": operand.values() for name, operand in result.operands.items()}
    return {**result.values, **quantised}


def compare(got: dict[str, tensors.Floats], expected: dict[str, tensors.Floats]) -> Comparison:
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
        **_counted(result.counters, macs, config.macs),
        "macs": macs,
        "exact": result.exact,
        "overflow": result.overflow,
        "saturated": sum(operand.saturated for operand in result.operands.values()),
        "nan": [name for name, operand in result.operands.items() if operand.nan],
        "inf": [name for name, operand in result.operands.items() if operand.inf],
        "verified": verify and comparison.mismatches == 0,
        "mismatches": comparison.mismatches,
        "compared": comparison.compared,
        "config_sha256": config.config_sha256,
    }


def _counted(counters: Counters | None, macs: int, multipliers: int) -> dict[str, Any]:
    causes = ("load", "store", "accumulator", "turn")
    if counters is None:
        keys = ("cycles", "convert_cycles", "utilisation", "read_bytes", "write_bytes")
        return dict.fromkeys(keys) | {"stalls": dict.fromkeys(causes)}
    return {
        "cycles": counters.cycles,
        "convert_cycles": counters.convert_cycles,
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
        else "not exact: some blocks met with deficits beyond accumulator.fraction",
    ]
    if record["cycles"] is not None:
        lines.append(
            f"{record['cycles']} cycles, utilisation {record['utilisation']:.1%}, "
            f"{record['read_bytes']} bytes read, {record['write_bytes']} written"
        )
    if record["saturated"]:
        lines.append(f"{record['saturated']} elements saturated when converted")
    if record["verified"]:
        lines.append(f"{record['compared']} elements equal to the golden model, bit for bit")
    return "\n".join(lines)
