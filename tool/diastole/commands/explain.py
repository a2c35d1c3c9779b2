"""`diastole explain`: write a page that steps through a small product, read from waves."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from diastole.commands.arguments import Commands, add_config, add_seed, read_config
from diastole.config.keys import Config
from diastole.console import say
from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.outputs import check_output
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.spec.require import excerpt, whole_number

if TYPE_CHECKING:
    from diastole_hw.plan.plan import Plan

MAX_LANES = 32
"""Largest number of lanes side by side in a picture."""
MAX_SUMS = 120_000
"""Largest number of partial sums in a page: about 600 kB of the page."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "explain",
        help="write a page that steps through a small product, cycle by cycle",
        description=__doc__,
        epilog="example: diastole explain --preset pico --op dw -o page.html",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    parser.add_argument(
        "--op",
        choices=tuple(OPERATIONS),
        default="forward",
        help="product that the page shows first; the page has all products (default: forward)",
    )
    parser.add_argument(
        "--sizes",
        metavar="M,K,N",
        type=sizes,
        default="16,16,16",
        help="sizes of the product: X is M x K, W is K x N, dY is M x N (default: 16,16,16)",
    )
    add_seed(parser, "seed of the tensors, which are normally distributed")
    parser.add_argument(
        "-o", "--out", metavar="PAGE.html", type=Path, required=True, help="page to write"
    )
    parser.set_defaults(execute=execute)


def sizes(text: str) -> dict[str, int]:
    """Parse M, K and N by axis, as a type for argparse."""
    parts = [whole_number(part.strip()) or 0 for part in text.split(",")]
    if len(parts) != 3 or not all(1 <= part <= MAX_SIZE for part in parts):
        raise argparse.ArgumentTypeError(
            f"must be three integers M,K,N in 1..{MAX_SIZE}, not {excerpt(text)}"
        )
    return dict(zip("mkn", parts, strict=True))


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    if config.numerics.chooses_widths:
        raise BadInput(
            "explain needs formats with a single width, not fast: --set format.x=bfp2 "
            "--set format.w=bfp2 --set format.dy=bfp2 shows the path of a single plane of "
            "fast"
        )
    _check_size(config, arguments.sizes)
    check_output("--out", arguments.out, (".html", ".htm"))
    names = [name for name in OPERATIONS if name != "backward" or config.plan.fused]
    first = arguments.op if arguments.op in names else "dx"
    # Imported in the function: the readers of waves import layouts of the hardware, and Amaranth.
    from diastole.explain.observe import observe
    from diastole.explain.page import write_page

    operands, results, runs = observe(config, names, arguments.sizes, arguments.seed)
    values = {name: array for result in results for name, array in result.values.items()}
    stories = list(zip(names, runs, strict=True))
    page = write_page(config, arguments.sizes, operands, values, stories, first).encode()
    atomic.replace(arguments.out, lambda file: file.write(page))
    if first != arguments.op:
        say(f"{config.name} has no fused pass: the page shows dX, then dW")
    for result, run in zip(results, runs, strict=True):
        assert result.counters is not None
        say(
            f"{result.op}: {result.counters.cycles} cycles, {run.cycles} of them from the first "
            f"request to the last beat written; {len(run.sums)} slots in {len(run.passes)} passes"
        )
    say(
        f"wrote {arguments.out} ({len(page) / 1000:.0f} kB): open the page in a browser; arrow "
        "keys step"
    )
    return 0


def _check_size(config: Config, axes: dict[str, int]) -> None:
    """Raise BadInput if the page would be too large to read."""
    plan = config.plan
    lanes = max(plan.rows, plan.cols) * plan.block
    if lanes > MAX_LANES:
        raise BadInput(
            f"{config.name} has {lanes} lanes side by side, but a page shows at most "
            f"{MAX_LANES}; choose a smaller array with --set array.rows=... --set "
            "array.cols=..., or --preset nano"
        )
    sums = about_sums(plan, axes)
    if sums > MAX_SUMS:
        raise BadInput(
            f"--sizes gives about {sums} partial sums, but a page shows at most "
            f"{MAX_SUMS}; 16,16,16 is enough to show every detail"
        )


def about_sums(plan: "Plan", axes: Mapping[str, int]) -> int:
    """Return an upper bound of the partial sums that all products have in all cells."""
    side = min(plan.rows, plan.cols) * plan.block
    slots = 0
    for operation in OPERATIONS.values():
        for product in operation.products:
            t, lanes, contraction = (axes[axis] for axis in product.loops)
            if len(operation.products) > 1:  # the fused pass streams along K for dX and dW
                t, lanes = axes["k"], axes["m"] * axes["n"] // contraction
            slots += t * -(-lanes // side) * -(-contraction // side)
    return slots * plan.rows * plan.cols * plan.block
