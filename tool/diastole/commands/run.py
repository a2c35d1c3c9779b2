"""`diastole run`: compute one matrix product on your data, on the hardware or the golden model."""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from diastole.backend import as_device_tensor, make_device, uploaded
from diastole.commands.arguments import Commands, add_config, add_execution, read_config
from diastole.commands.backends import execution_of
from diastole.config.keys import Config
from diastole.console import fail, note, print_json, say, say_next, warn
from diastole.errors import BadInput, CheckFailed
from diastole.files import tensors
from diastole.files.outputs import check_output
from diastole.files.tensors import Array, FileTensors, Floats
from diastole_sim.codes.codes import suffixes, to_codes
from diastole_sim.device.interface import ConvertedTensor, DeviceProtocol, ProductResult
from diastole_sim.golden.compare import GoldenComparison, Readable, copy_name
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.improvement import Monitored
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.golden.sharing import parts_of
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.part import ProductPart, require_free, unit_of
from diastole_sim.spec.registers import WAIT_CAUSES

LENGTHS = {
    "t_blocks": "blocks of a tile of the streaming operand",
    "groups": "slices of lanes in an output tile",
    "chunk": "blocks of the contraction in one load",
}
"""Meanings of the lengths of a nest."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="compute a matrix product on your data",
        description=__doc__,
        epilog="example: diastole run my.toml --op forward --in a.npz --out b.npz --verify",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument(
        "--op",
        choices=tuple(OPERATIONS),
        required=True,
        help="product to compute: forward is Y = X W, dx is dX = dY W^T, dw is dW = X^T dY, "
        "backward is both gradients",
    )
    parser.add_argument(
        "--in",
        metavar="A.npz",
        dest="source",
        type=Path,
        required=True,
        help="file with the tensors of the product: X (M x K), W (K x N), dY (M x N)",
    )
    parser.add_argument(
        "--out",
        metavar="B.npz",
        dest="target",
        type=Path,
        required=True,
        help="file to write: Y, dX, dW and the converted operands X_q, W_q, dY_q (two copies "
        "where groups are vectors: X_q_k, X_q_m, W_q_n, W_q_k, dY_q_n, dY_q_m)",
    )
    parser.add_argument(
        "--codes",
        action="store_true",
        help="also read and write operands as element codes and scales: X_codes, X_scales, "
        "X_tensor_scale, X_format",
    )
    lengths = ", ".join(f"{name} ({counted})" for name, counted in LENGTHS.items())
    parser.add_argument(
        "--nest",
        metavar="NAME=VALUE,...",
        help=f"loops of forward, dx or dw: {lengths}, outer (t or l), keep (none, stream, "
        "stationary or both); absent lengths and lengths of 0 are the machine's own lengths, and "
        "without --nest the model of the machine chooses; the result does not depend on the loops",
    )
    parser.add_argument(
        "--part",
        metavar="AXIS,INDEX,COUNT",
        help="compute part INDEX, from 0 on, of COUNT parts along m, n or k, as one of COUNT "
        "machines that share the product; tensors are converted whole, results and _q "
        "belong to the part; the axis of the sum cannot be cut",
    )
    add_execution(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    execution = execution_of(arguments)
    check_output("--out", arguments.target, (".npz",))
    op, nest = arguments.op, read_nest(arguments, config)
    source = tensors.read_tensors(arguments.source, op, config.numerics, codes=arguments.codes)
    try:
        whole = tensors.check_sizes(op, source.tensors, config.numerics)
    except BadInput as error:
        raise error.within(arguments.source) from error
    part = read_part(arguments)
    sizes = part_sizes(part, op, whole, config)
    check_nest(nest, op, sizes, config)
    if arguments.codes:
        tensors.check_codes(source.tensors, config.numerics)
    for text in source.notes:
        note(text)
    for text in tensors.warnings(source.tensors, config.numerics.special):
        warn(text)
    with make_device(execution, config, nest=nest) as device:
        converted = operands(device, op, source)
        result = multiply(device, op, part_operands(device, op, converted, part, config.numerics))
        cycles = convert_cycles(result, converted)
        written = outputs(result)
        read = {name: read_back(operand) for name, operand in result.operands.items()}
        beyond = beyond_float32(result, config.numerics)
    comparison, codes = GoldenComparison(), {}
    if arguments.verify or arguments.codes:
        golden = NumpyDevice(config.numerics, seed=execution.seed)
        standard = part_operands(golden, op, operands(golden, op, source), part, config.numerics)
        if arguments.verify:
            comparison = compare(result, read, multiply(golden, op, standard))
        if arguments.codes:
            codes = code_arrays(read, standard)
    tensors.write(arguments.target, written | codes)
    record = summary(config, execution.backend, sizes, result, comparison, arguments.verify)
    record |= {"convert_cycles": cycles, "part": None if part is None else str(part)}
    record |= {"beyond_float32": beyond}
    if arguments.json:
        print_json(record)
    else:
        floats = config.accumulator.kind == "float"
        say(describe(record, arguments.target, floats=floats))
        say_next(
            "--verify compares all results with the numpy model, bit for bit"
            if not arguments.verify
            else "--trace waves.vcd records the waves"
        )
    for line in failures(comparison):
        fail(line)
    return 1 if comparison.mismatches else 0


def read_nest(arguments: argparse.Namespace, config: Config) -> Nest | None:
    """Return the loop nest of ``--nest``. BadInput if the text is no nest, or does not fit the
    operation."""
    if arguments.nest is None:
        return None
    if arguments.backend == "golden":
        warn("--nest changes nothing with --backend golden, which has no loops")
    try:
        nest = Nest.parse(arguments.nest)
    except ValueError as error:
        raise BadInput(f"--nest: {error}") from error
    if config.plan.nests.of(arguments.op) is None:
        raise BadInput(
            f"--nest: {arguments.op} takes no nest, because the loops of both gradients "
            "are fixed; run --op dx and --op dw, each with a nest"
        )
    return nest


def check_nest(nest: Nest | None, op: str, sizes: tensors.Sizes, config: Config) -> None:
    """Raise BadInput if a nest does not fit the machine, or if the nest keeps an operand on chip
    that is too large in this product."""
    if nest is None or (limits := config.plan.nests.of(op)) is None:
        return
    (product,) = OPERATIONS[op].products
    t, lanes, contraction = (
        -(-sizes.axis(axis.upper()) // config.numerics.block) for axis in product.loops
    )
    if problem := limits.problem(nest, (t, lanes, contraction)):
        if (name := problem.partition(" ")[0]) in LENGTHS:
            problem += f"; {name} counts {LENGTHS[name]}, and 0 is the machine's own length"
        raise BadInput(f"--nest: {problem} ({op} on {config.name})")


def read_part(arguments: argparse.Namespace) -> ProductPart | None:
    """Return the part of ``--part``. BadInput if the text is no part."""
    if arguments.part is None:
        return None
    try:
        return ProductPart.parse(arguments.part)
    except ValueError as error:
        raise BadInput(f"--part: {error}") from error


def part_sizes(
    part: ProductPart | None, op: str, sizes: tensors.Sizes, config: Config
) -> tensors.Sizes:
    """Return M, K and N of a part. BadInput if the product cannot be split along the axis."""
    if part is None:
        return sizes
    operation = OPERATIONS[op]
    try:
        require_free(part, operation)
        unit = unit_of(part.axis, operation.operands, config.numerics)
        first, last = part.bounds(sizes.axis(part.axis.upper()), unit)
    except ValueError as error:
        raise BadInput(f"--part: {error}") from error
    return replace(sizes, **{part.axis: last - first})


def operands(device: DeviceProtocol, op: str, tensors: FileTensors) -> dict[str, ConvertedTensor]:
    """Return the operands of ``op`` on the device, by name: at step 0, with the tags of layer 0."""
    converted: dict[str, ConvertedTensor] = {}
    for operand in OPERATIONS[op].operands:
        name, tensor = operand.name, tensors.tensors[operand.name]
        if isinstance(tensor, Quantised):
            converted[name] = uploaded(device, tensor)
        else:
            converted[name] = device.convert(
                tensor, operand.tensor_class, tag=operand.number, scale=tensors.scales.get(name)
            )
    return converted


def part_operands(
    device: DeviceProtocol,
    op: str,
    converted: dict[str, ConvertedTensor],
    part: ProductPart | None,
    numerics: Numerics,
) -> dict[str, ConvertedTensor]:
    """Return the operands of a part, cut from the operands of the whole product."""
    if part is None:
        return converted
    stored = {name: read_back(tensor) for name, tensor in converted.items()}
    own = parts_of(OPERATIONS[op], stored, part, numerics)
    return {name: uploaded(device, tensor) for name, tensor in own.items()}


def convert_cycles(result: ProductResult, converted: dict[str, ConvertedTensor]) -> int | None:
    """Return the cycles of the conversions of whole tensors; None without a clock."""
    if result.counters is None:
        return None
    return sum(as_device_tensor(tensor).convert_cycles for tensor in converted.values())


def multiply(
    device: DeviceProtocol, op: str, converted: dict[str, ConvertedTensor]
) -> ProductResult:
    """Return the product ``op`` of converted tensors by name."""
    return getattr(device, op)(*(converted[name] for name in OPERATIONS[op].operand_names))


def outputs(result: ProductResult) -> dict[str, Floats]:
    """Return the arrays of floats that `run` writes: results by name, and the converted operands as
    NAME_q, or as NAME_q_AXIS where a tensor has two copies."""
    quantised = {
        copy_name(name, axis): values
        for name, operand in result.operands.items()
        for axis, values in operand.copy_values().items()
    }
    return {**result.values, **quantised}


def code_arrays(
    codes: dict[str, Quantised], standard: dict[str, ConvertedTensor]
) -> dict[str, Array]:
    """Return the arrays that ``--codes`` adds: the operands as their formats define codes and
    scales.

    ``standard`` holds the operands of the golden model, for the scales, which folding hides.
    CheckFailed if the device stored an element without a code under these scales.
    """
    arrays: dict[str, Array] = {}
    for name, tensor in codes.items():
        try:
            copies = to_codes(tensor, read_back(standard[name]))
        except ValueError as error:
            raise CheckFailed(f"{name}_codes cannot be written: {error}") from error
        arrays[f"{name}_format"] = np.array(str(copies[0].form))
        if copies[0].tensor_scale is not None:
            arrays[f"{name}_tensor_scale"] = np.array(copies[0].tensor_scale, np.float64)
        for suffix, copy in zip(suffixes(tensor.tensor_class, tensor.storage), copies, strict=True):
            arrays[f"{name}_codes{suffix}"] = copy.codes
            if copy.scales is not None:
                arrays[f"{name}_scales{suffix}"] = copy.scales
    return arrays


def read_back(tensor: ConvertedTensor) -> Quantised:
    """Return the quantised tensor of a device: the golden model's own, or the content of the
    machine's memory."""
    assert isinstance(tensor, Readable)
    return tensor.read()


def compare(
    got: ProductResult, results: dict[str, Quantised], expected: ProductResult
) -> GoldenComparison:
    """Compare all reports of a device about a product and its operands, read as ``results``."""
    comparison = GoldenComparison()
    for name, tensor in results.items():
        comparison.operand(name, tensor, expected.operands[name])
    comparison.result(got, expected)
    return comparison


def failures(comparison: GoldenComparison) -> list[str]:
    """Return lines for people: the first difference, and every further report with a difference."""
    if not comparison.mismatches:
        return []
    first = str(comparison.first)
    count = f"{comparison.mismatches} of {comparison.compared} elements and reported values"
    others = [line for line in comparison.reports_differ if line != first]
    return [f"{count} differ from the golden model; {first}", *others]


def summary(
    config: Config,
    backend: str,
    sizes: tensors.Sizes,
    result: ProductResult,
    comparison: GoldenComparison,
    verify: bool,
) -> dict[str, Any]:
    """Return the object of ``--json``. Values that need a clock are null without a clock.

    ``compared`` and ``mismatches`` count elements and reported values, as in
    :class:`diastole_sim.golden.compare.GoldenComparison`. ``reports_differ`` has the differing
    values in words.
    """
    macs = sizes.macs(result.op)
    return {
        "op": result.op,
        "backend": backend,
        **asdict(sizes),
        **_counted(result, macs, config.macs),
        "macs": macs,
        "exact": result.exact,
        "overflow": result.overflow,
        "converted": sum(operand.stored for operand in result.operands.values()),
        "saturated": sum(operand.saturated for operand in result.operands.values()),
        "underflowed": sum(operand.underflowed for operand in result.operands.values()),
        "nan": [name for name, operand in result.operands.items() if operand.nan],
        "inf": [name for name, operand in result.operands.items() if operand.inf],
        "improvement": improvements(result),
        "verified": verify and comparison.mismatches == 0,
        "mismatches": comparison.mismatches,
        "compared": comparison.compared,
        "reports_differ": comparison.reports_differ,
        "config_sha256": config.config_sha256,
    }


def beyond_float32(result: ProductResult, numerics: Numerics) -> dict[str, int]:
    """Return how many stored elements are larger than any float32, by operand with a count above 0.
    The array of the elements has Inf for large elements, though the format stores no Inf."""
    counts: dict[str, int] = {}
    for name, operand in result.operands.items():
        format = numerics.tensor_class(operand.tensor_class).format
        copies = () if format.specials == "ieee" else operand.copy_values().values()
        if count := sum(int(np.count_nonzero(np.isinf(values))) for values in copies):
            counts[name] = count
    return counts


def improvements(result: ProductResult) -> dict[str, dict[str, int]]:
    """Return the counts of a monitor for operands in the format fast, by name."""
    seen = {
        name: operand.improvement
        for name, operand in result.operands.items()
        if isinstance(operand, Monitored)
    }
    return {
        name: {"num": each.num, "den": each.den} for name, each in seen.items() if each is not None
    }


def _counted(result: ProductResult, macs: int, multipliers: int) -> dict[str, Any]:
    counters = result.counters
    if counters is None:
        keys = ("cycles", "utilisation", "read_bytes", "write_bytes", "busy_slots")
        return dict.fromkeys(keys) | {"waits": dict.fromkeys(WAIT_CAUSES)}
    return {
        "cycles": counters.cycles,
        "utilisation": macs / (counters.cycles * multipliers),
        "read_bytes": counters.read_bytes,
        "write_bytes": counters.write_bytes,
        "busy_slots": counters.busy_slots,
        "waits": dict(counters.waits),
    }


def describe(record: dict[str, Any], target: Path, *, floats: bool = False) -> str:
    """Return a few lines for people. ``floats``: sums are floats."""
    rounded = ", or were rounded by the float accumulators" if floats else ""
    lines = [
        (
            f"{record['op']} of M = {record['m']}, K = {record['k']}, N = {record['n']} "
            f"on {record['backend']}: wrote {target}"
            + (f" (part {record['part']})" if record["part"] else "")
        ),
        "every element is the product of the converted operands, rounded once"
        if record["exact"]
        else "not exact: some products lie beyond accumulator.fraction, or beyond cell.window"
        + rounded,
    ]
    if record["cycles"] is not None:
        lines.append(
            f"{record['cycles']} cycles, utilisation {record['utilisation']:.1%}, "
            f"{record['read_bytes']} bytes read, {record['write_bytes']} written"
        )
    if record["saturated"]:
        lines.append(
            f"{record['saturated']} of {record['converted']} elements saturated when converted"
        )
    for name, count in record["beyond_float32"].items():
        lines.append(
            f"{name}_q has Inf for {count} elements: the machine stores and multiplies "
            "finite numbers beyond the range of float32"
        )
    if record["underflowed"]:
        lines.append(
            f"{record['underflowed']} of {record['converted']} elements became zeros when converted"
        )
    if record["verified"]:
        lines.append(
            f"{record['compared']} elements and reported values equal to the golden model, "
            "bit for bit"
        )
    return "\n".join(lines)
