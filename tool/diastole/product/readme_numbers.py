"""Write the paragraphs of a product's README on the origin of numbers: random bits, shared
exponents, and functions."""

import textwrap

from diastole.product.facts import ProductFacts
from diastole_sim.golden.random import PARITY, ROTATIONS, ROUNDS, tensor_draws
from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    EXPONENT_BIAS,
    FOUR_OVER_SIX,
    MAX_EXPONENT,
)
from diastole_sim.spec.functions import LARGEST_ERRORS
from diastole_sim.spec.lfsr import PAIR_LFSR_BITS, START_BITS, taps_of
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.operations import OPERAND_BY_CLASS
from diastole_sim.spec.reference import table
from diastole_sim.spec.rounding import DRAW_BITS, SHARED_DRAW_BITS, is_stochastic

EXAMPLE_SEED, EXAMPLE = 1, 6
"""Seed and number of the random values that the README shows."""

_NO_DRAWS = "Random bits: no class rounds stochastically. SEED, `tag` and `step` have no effect."
_HASHED = (
    "Random bits: a and b are the two words of 32 bits of a Threefry-2x32 hash of {rounds} rounds "
    "(Salmon et al., SC'11). k0 = SEED, k1 = `tag`, k2 = k0 xor k1 xor 0x{parity:08X}, c1 = "
    "{step}, and c0 depends on the place of the element:"
)
_ROUNDS = """\
    a, b = c0 + k0, c1 + k1
    for r in 0 .. {last}:
        a = a + b;  b = rotate_left(b, n[r mod {turns}]) xor a;  n = {rotations}
        if j = (r + 1) / 4 is an integer:  a = a + k[j mod 3];  b = b + k[(j + 1) mod 3] + j"""
_COUNTER = (
    "Elements of a tensor are numbered row by row, without padding. Element i has c0 = floor(i / "
    "4). The draw of element i has {draw} bits: the bits of a + 2^32 b from bit {draw} (i mod 4) "
    "on. R is the top {bits} bits of the draw. {second} With SEED {seed}, tag 0 and step 0, the "
    "first values of R are {shown}."
)
_SECOND_OF_THE_SAME = "In a second copy, R is the top {bits} of the low {shared} bits of the draw."
_SECOND_OF_ANOTHER = "In a second copy, the highest bit of `tag` is inverted for the hash."
_LFSR = (
    "Row i of a tensor has c0 = i, and a register of n = {n} bits. o is a, or b for a second copy, "
    "and u = o mod 2^{start}. The state s of the register at column 0 is 1 + floor(u (2^n - 1) / "
    "2^{start}). The state at the next {step} is (2 s + p) mod 2^n, where p is the parity of the "
    "bits {taps} of s, and bit 1 is the lowest bit. "
)
_LOW_BITS = "R is the low {bits} bits of the state at the column of the element."
_PAIRS = (
    "s is the state at the pair of columns of the element. R is s if column + floor(column / 2) + "
    "floor(o / 2^{start}) is even, and 7 - s otherwise."
)
_DATA = "Random bits: R is the low {bits} bits of the significand of the number in binary32."

_EXPONENTS = (
    "Shared exponents: amax = m 2^(x - 23) is the largest finite magnitude of a group, with m from "
    "2^23 to 2^24 - 1. Numbers below 2^-126 count as zeros. The exponent byte is e + {bias}, and e "
    "is at most {most}. {classes}"
)
_TWO_LEVELS = (
    "T is the smallest integer with amax of the whole tensor <= {largest} 2^T, unless `scale` of "
    "the command gives T. The exponent byte of a group is the E4M3 code of amax / (6 2^T), rounded "
    "{rounded}, at most 448{other} (`{rule}`)"
)
_FOUR = (
    ", or the code of amax / (4 2^T) if this code gives the smaller sum of squared errors of the "
    "group, for elements rounded to nearest"
)
_FOLDED = (
    " Every block has a separate exponent byte. If the largest element of a block is below the top "
    "binade of the format, the exponent of the block is lowered by the binades between. The "
    "exponent is lowered by one binade less if a code would become the code of NaN. The values do "
    "not change."
)
_NEAREST = "to nearest, ties to even"
_ROUNDED = {"nearest": _NEAREST, FOUR_OVER_SIX: _NEAREST, "up": "upwards"}

_FUNCTIONS = (
    "Functions: `exp`, `rcp`, `rsq` and `lgg` are parabolas, with a table of segments for each "
    "function. The largest errors below are in units of the last place of the exact result. All "
    "other operations are rounded to nearest even. Results below 2^-126 are zeros."
)
_JUDGED = {
    "exp": ("e^a", "10 million numbers from -87.3 to 88.7"),
    "rcp": ("1 / a", "all significands"),
    "rsq": ("1 / sqrt(a)", "all significands, with even and odd exponents"),
    "lgg": ("log(1 + d) / d", "all d from -1/4 to 1/2"),
}


def draw_lines(facts: ProductFacts) -> list[str]:
    """Return the rule that derives the random bits of an element from the place of the element."""
    numerics = facts.config.numerics
    classes = [numerics.tensor_class(name) for name in CLASS_NAMES]
    if not any(is_stochastic(each.rounding) for each in classes):
        return _paragraph(_NO_DRAWS)
    kind, bits = numerics.rounding_kind, numerics.random_bits
    if kind == "data":
        return _paragraph(_DATA.format(bits=bits))
    step = "`step` + STEP" if facts.vector else "`step`"
    hashed = _HASHED.format(rounds=ROUNDS, parity=PARITY, step=step)
    rotations = ", ".join(map(str, ROTATIONS))
    rounds = _ROUNDS.format(last=ROUNDS - 1, turns=len(ROTATIONS), rotations=rotations)
    element = _element_lines(kind, numerics)
    return [*_paragraph(hashed), "", *rounds.splitlines(), "", *_paragraph(element)]


def _element_lines(kind: str, numerics: Numerics) -> str:
    bits = numerics.random_bits
    if kind == "counter":
        second = _SECOND_OF_THE_SAME if bits <= SHARED_DRAW_BITS else _SECOND_OF_ANOTHER
        shown = tensor_draws((1, EXAMPLE), seed=EXAMPLE_SEED, tag=0, step=0, bits=bits)
        return _COUNTER.format(
            draw=DRAW_BITS,
            bits=bits,
            second=second.format(bits=bits, shared=SHARED_DRAW_BITS),
            seed=EXAMPLE_SEED,
            shown=", ".join(map(str, shown[0].tolist())),
        )
    pairs = kind == "lfsr3"
    n = PAIR_LFSR_BITS if pairs else numerics.lfsr_bits
    taps = " and ".join(map(str, taps_of(n)))
    step = "pair of columns" if pairs else "column"
    register = _LFSR.format(n=n, start=START_BITS, step=step, taps=taps)
    return register + (_PAIRS if pairs else _LOW_BITS).format(bits=bits, start=START_BITS)


def exponent_choice_lines(facts: ProductFacts) -> list[str]:
    """Return the rule that derives the exponent of a group from the numbers of the group."""
    numerics = facts.config.numerics
    texts: dict[str, list[str]] = {}
    for name in CLASS_NAMES:
        text = rule_text(numerics.tensor_class(name))
        text = f"{text}.{_FOLDED}" if numerics.folds(name) else f"{text}."
        texts.setdefault(text, []).append(OPERAND_BY_CLASS[name].name)
    classes = " ".join(f"In {', '.join(names)}: {text}" for text, names in texts.items())
    whole = _EXPONENTS.format(bias=EXPONENT_BIAS, most=MAX_EXPONENT, classes=classes)
    return _paragraph(whole)


def rule_text(storage: TensorClass) -> str:
    """Return the rule for the exponent of a group of a class."""
    kind, rule = storage.format, storage.scale
    if kind.two_level:
        four = rule == FOUR_OVER_SIX
        largest = 6 * (256 if four else 448)
        other = _FOUR if four else ""
        return _TWO_LEVELS.format(largest=largest, rounded=_ROUNDED[rule], other=other, rule=rule)
    dropped = BINARY32_SIGNIFICAND_BITS - kind.precision
    above = {
        "even": (1 << BINARY32_SIGNIFICAND_BITS) - (1 << dropped - 1) - 1,
        "ceil": 1 << BINARY32_SIGNIFICAND_BITS - 1,
        "rceil": kind.max_significand << dropped,
    }
    text = {"fixed": f"e = {MAX_EXPONENT} for every amax", "floor": "e = x"}.get(rule)
    text = text or f"e = x + 1 if m > {above[rule]}, otherwise e = x"
    if storage.has_tensor_scale:
        text = f"{text}, for amax of the whole tensor, unless `scale` of the command gives e"
    return f"{text} (`{rule}`)"


def function_lines(facts: ProductFacts) -> list[str]:
    """Return the errors of the special functions; an empty list without a vector unit."""
    if not facts.vector:
        return []
    rows = (
        (f"`{name}`", what, f"{LARGEST_ERRORS[name]:.2f}", among)
        for name, (what, among) in _JUDGED.items()
    )
    heads = ("operation", "exact", "largest error", "inputs")
    return [*_paragraph(_FUNCTIONS), "", *table(*heads, rows=rows)]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)
