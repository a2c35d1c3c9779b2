"""`diastole check`: report all mistakes of a configuration at once."""

import argparse
from itertools import combinations

from diastole.commands.arguments import Commands, add_config, machine_arguments, read_config
from diastole.console import say, say_next
from diastole.layers.layer_costs import usual_use
from diastole_sim.spec.accumulator import EXPONENT_BITS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "check",
        help="report all mistakes of a configuration",
        description=__doc__,
        epilog="example: diastole check my.toml --set array.rows=4",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    array, numerics = config.array, config.numerics
    say(
        f"{arguments.file}: good: {config.name}, {array.rows} x {array.cols} cells with blocks of "
        f"{array.block} x {array.block}, {config.macs} multipliers, {sums_of(numerics)}"
    )
    for line in describe(numerics):
        say(f"  {line}")
    say(f"  {usual_use(config)}")
    say_next(f"diastole generate {machine_arguments(arguments)} -o product")
    return 0


def sums_of(numerics: Numerics) -> str:
    """Return the kind of the accumulators in words."""
    accumulator = numerics.accumulator
    if accumulator is None:
        return f"accumulators of {numerics.accumulator_bits} bits"
    name = f"e{EXPONENT_BITS}m{accumulator.mantissa}"
    return f"accumulators {name} of chunks of {accumulator.chunk} elements"


def describe(numerics: Numerics) -> list[str]:
    """Return the values that absent keys have: a line for every class of tensor, and a line for the
    products."""
    lines: list[str] = []
    for name in CLASS_NAMES:
        storage = numerics.tensor_class(name)
        copies = ", stored in two copies" if storage.two_copies else ""
        lines.append(
            f"{name}: format {storage.format.name}, groups {storage.grouping}, scale "
            f"{storage.scale}, rounding {storage.rounding}{copies}"
        )
    pairs = list(combinations(CLASS_NAMES, 2))
    bits = max(numerics.product_bits(a, b) for a, b in pairs)
    rounded = any(numerics.is_windowed(a, b) for a, b in pairs)
    lines.append(f"products: {'rounded to' if rounded else 'exact in'} {bits} bits")
    return lines
