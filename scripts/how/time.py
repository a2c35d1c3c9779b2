"""Where the cycles of a layer go, with the machine's own tiles and with the chosen nest."""

from diastole.config.presets import PRESETS
from diastole.layers.bounds import MEANINGS, MULTIPLIERS, cycles_by_cause, percents, shares_of
from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.perf.product_estimate import estimate
from diastole_sim.spec.command import DEFAULT_NEST

from .canvas import WIDTH, Canvas

SIDE = 64
LEFT, LINE = 92, 19


def estimates():
    """Return the two estimates of a forward product on nano, by the words for their nests."""
    config = PRESETS["nano"]
    machine = ModelledMachine.of(
        config.numerics, memory=Memory.axi(LATENCY), **config.modelled_sizes
    )
    chosen = choose_nest(machine, config.plan.nests.of("forward"), "forward", SIDE, SIDE, SIDE)
    nests = {"the machine's own tiles": DEFAULT_NEST, "the chosen nest": chosen}
    return {
        words: estimate(machine, "forward", SIDE, SIDE, SIDE, nest) for words, nest in nests.items()
    }


def draw() -> str:
    """Draw the shares of the cycles one behind the other, by the model of the machine."""
    products = estimates()
    longest = max(each.cycles for each in products.values())
    own, chosen = products.values()
    picture = Canvas(
        f"Where the cycles of a product of {SIDE} cubed go on nano",
        f"With the machine's own tiles the product takes {own.cycles} cycles and the array "
        f"multiplies in {own.utilisation:.1%}; with the chosen nest {chosen.cycles} cycles and "
        f"{chosen.utilisation:.1%}.",
    )
    picture.text(8, 18, f"Y = X W of {SIDE} cubed on nano", size=13, bold=True)
    scale, y = (WIDTH - LEFT - 92) / longest, 42
    for words, product in products.items():
        picture.text(8, y, f"{words}: {product.cycles} cycles", bold=True)
        cycles = cycles_by_cause(product)
        shares = percents(shares_of(cycles))
        begin, y = 0.0, y + 6
        for name in (each for each in MEANINGS if each in cycles):
            x, long = LEFT + begin * scale, cycles[name] * scale
            works = name == MULTIPLIERS
            picture.text(LEFT - 6, y + 12, name, anchor="end")
            picture.rect(
                x, y + 2, long, 13, fill="sums" if works else "none",
                stroke="sums" if works else "faint",
            )  # fmt: skip
            text = f"{cycles[name]:.0f}, {shares[name]:.1f} %"
            picture.text(x + long + 4, y + 12, text, colour="ink")
            begin, y = begin + cycles[name], y + LINE
        y += 22
    picture.rect(8, y - 8, 14, 9, fill="sums", stroke="sums")
    picture.text(28, y, "the array multiplies")
    picture.rect(170, y - 8, 14, 9, fill="none", stroke="faint")
    picture.text(190, y, "the array waits for the cause")
    return picture.svg()
