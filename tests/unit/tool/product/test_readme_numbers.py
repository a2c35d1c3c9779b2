"""Paragraphs of the README on numbers: who follows them gets what independent judges get."""

import re
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from diastole.product import readme_numbers as made
from diastole.product.generate import product_files
from diastole_sim.spec.formats import FAST, FORMAT_NAMES, parse_format, parse_grouping
from diastole_sim.spec.functions import LARGEST_ERRORS
from diastole_sim.spec.numerics import TensorClass
from oracle import draws as oracle
from support.product_facts import facts_of, little_config
from support.special_functions import FUNCTIONS

CLASSES = ("x", "w", "dy")
MASK = 0xFFFFFFFF
SEED, TAG, STEP = 0x5EED, 7, 3


def drawn(kind, bits=8, **others):
    rounding = dict.fromkeys(CLASSES, "stochastic-a") | {"kind": kind, "bits": bits} | others
    return facts_of(little_config(f"drawn_{kind}_{bits}", rounding=rounding))


def one_line(lines):
    return re.sub(r"\s+", " ", " ".join(lines))


def hashed(lines, c0):
    """a and b, by the rounds of the text."""
    text = one_line(lines)
    constant = int(re.search(r"k0 xor k1 xor 0x([0-9A-F]{8})", text)[1], 16)
    last, turns = map(int, re.search(r"r in 0 \.\. (\d+): .* n\[r mod (\d+)\]", text).groups())
    n = list(map(int, re.search(r"n = ([\d, ]+) if", text)[1].split(", ")))
    k = [SEED, TAG, SEED ^ TAG ^ constant]
    a, b = (c0 + k[0]) & MASK, (STEP + k[1]) & MASK
    for r in range(last + 1):
        a = (a + b) & MASK
        by = n[r % turns]
        b = (b << by & MASK | b >> 32 - by) ^ a
        j, rest = divmod(r + 1, 4)
        if rest == 0:
            a, b = (a + k[j % 3]) & MASK, (b + k[(j + 1) % 3] + j) & MASK
    return a, b


def judged(kind, row, column, columns, bits, second, value=0.0, **others):
    where = {"row": row, "column": column, "columns": columns, "second": second, "bits": bits}
    return oracle.element_draw(value, drawn=kind, seed=SEED, tag=TAG, step=STEP, **where, **others)


@pytest.mark.parametrize("bits", [1, 5, 8, 9, 16])
def test_draws_by_number(bits):
    lines = made.draw_lines(drawn("counter", bits))
    text = one_line(lines)
    assert f"R is the top {bits} bits of the draw" in text
    for row, column in ((0, 0), (0, 4), (2, 1), (6, 6)):
        i = 7 * row + column
        a, b = hashed(lines, i // 4)
        sixteen = (a | b << 32) >> 16 * (i % 4) & 0xFFFF
        assert sixteen >> 16 - bits == judged("counter", row, column, 7, bits, False)
        if bits <= 8:
            assert f"In a second copy, R is the top {bits} of the low 8 bits of the draw." in text
            assert (sixteen & 0xFF) >> 8 - bits == judged("counter", row, column, 7, bits, True)
    assert ("the highest bit of `tag` is inverted for the hash" in text) == (bits > 8)


def test_draws_that_are_shown():
    text = one_line(made.draw_lines(drawn("counter", 8)))
    shown = re.search(
        r"With SEED (\d+), tag 0 and step 0, the first values of R are ([\d, ]+)\.", text
    )
    wanted = [
        oracle.element_draw(
            0.0, row=0, column=c, columns=6, seed=int(shown[1]), tag=0, step=0, bits=8, second=False
        )
        for c in range(6)
    ]
    assert list(map(int, shown[2].split(", "))) == wanted


@pytest.mark.parametrize(
    "kind, bits, others", [("lfsr", 8, {"lfsr_bits": 11}), ("lfsr", 3, {}), ("lfsr3", 3, {})]
)
@pytest.mark.parametrize("second", [False, True])
def test_draws_of_registers(kind, bits, others, second):
    lines = made.draw_lines(drawn(kind, bits, **others))
    text = one_line(lines)
    n = int(re.search(r"a register of n = (\d+) bits", text)[1])
    taps = list(map(int, re.search(r"parity of the bits ([\d and]+) of s", text)[1].split(" and ")))
    columns = 9
    for row in range(5):
        o = hashed(lines, row)[second]
        state = 1 + (o % 2**31 * (2**n - 1) >> 31)
        for column in range(columns):
            if column and (kind == "lfsr" or column % 2 == 0):
                parity = sum(state >> tap - 1 for tap in taps) % 2
                state = (2 * state + parity) % 2**n
            found = state % 2**bits
            if kind == "lfsr3" and (column + column // 2 + o // 2**31) % 2:
                found = 7 - state
            more = {"lfsr_bits": n} if kind == "lfsr" else {}
            assert found == judged(kind, row, column, columns, bits, second, **more), (row, column)


def test_draws_without_a_hash():
    text = one_line(made.draw_lines(drawn("data", 8)))
    assert text == (
        "Random bits: R is the low 8 bits of the significand of the number in binary32."
    )
    nearest = facts_of(little_config(rounding=dict.fromkeys(CLASSES, "nearest")))
    assert made.draw_lines(nearest) == [made._NO_DRAWS]
    unit = facts_of(little_config("unit", vector={"enable": True}))
    assert "c1 = `step` + STEP," in one_line(made.draw_lines(unit))


def largest(kind) -> Fraction:
    """The largest element of a group of exponent 0: its top binade begins at 1."""
    return Fraction(kind.max_significand, 2 ** (kind.precision - 1))


POWERS = [name for name in (*FORMAT_NAMES, FAST.name) if parse_format(name).scale == "power"]


def rule_of(name, rule, grouping="8x8"):
    chosen = parse_format(name)
    groups = parse_grouping(grouping)
    return TensorClass(format=chosen, rounding="nearest", grouping=groups, scale=rule)


@pytest.mark.parametrize("name", POWERS)
def test_exponents_by_rule(name):
    """Of amax at both ends of a binade, and around the bound that the text has: each rule by its
    definition, in fractions."""
    kind = parse_format(name)
    for rule in kind.scale_rules:
        text = made.rule_text(rule_of(name, rule))
        assert text.endswith(f"(`{rule}`)")
        bound = re.match(r"e = x \+ 1 if m > (\d+), otherwise e = x", text)
        if rule == "floor":
            assert bound is None
            assert text.startswith("e = x ")
            continue
        bound = int(bound[1])
        for m in (2**23, bound - 1, bound, bound + 1, 2**24 - 1):
            if 2**23 <= m < 2**24:
                amax = Fraction(m, 2**23)
                rounded = round(amax * 2 ** (kind.precision - 1))  # to even
                raised = {
                    "ceil": amax > 1,
                    "rceil": amax > largest(kind),
                    "even": rounded == 2**kind.precision,
                }[rule]
                assert (m > bound) == raised, (rule, m)


NEAREST = "amax / (6 2^T), rounded to nearest, ties to even, at most 448"
TWO_LEVELS = {
    "nearest": ("<= 2688 2^T", f"{NEAREST} ("),
    "up": ("<= 2688 2^T", "amax / (6 2^T), rounded upwards, at most 448 ("),
    "four-over-six": ("<= 1536 2^T", f"{NEAREST}, or the code of amax / (4 2^T) if"),
}


def test_exponents_of_two_levels():
    """Every rule that there is has a text."""
    for rule in parse_format("nvfp4").scale_rules:
        text = made.rule_text(rule_of("nvfp4", rule, "1x16"))
        for words in TWO_LEVELS[rule]:
            assert words in text


@pytest.mark.parametrize("name", [*FORMAT_NAMES, FAST.name])
def test_every_class_is_in_the_paragraph(name):
    facts = facts_of(little_config(f"of_{name}", format=dict.fromkeys(CLASSES, name)))
    text = one_line(made.exponent_choice_lines(facts))
    assert "In X, W, dY: " in text
    assert ("lowered by the binades between" in text) == facts.config.numerics.folds("x")


MPFR = {
    "exp": (gmpy2.exp, -87.3, 88.7),
    "rcp": (lambda x: 1 / x, 1, 2),
    "rsq": (lambda x: 1 / gmpy2.sqrt(x), 1, 4),
    "lgg": (lambda x: gmpy2.log(x) / (x - 1), 0.75, 1.5),
}


@pytest.mark.parametrize("name", MPFR)
def test_errors_of_functions_are_not_above_those_of_the_readme(name, rng):
    """A sample, against MPFR; all significands are in tests/sweeps/test_functions.py."""
    function, low, high = MPFR[name]
    x = np.random.default_rng(rng.getrandbits(32)).uniform(low, high, 20_000).astype(np.float32)
    x = x[x != 1]
    found = FUNCTIONS[name](x)
    with gmpy2.context(precision=80):
        errors = []
        for given, got in zip(x.tolist(), found.tolist(), strict=True):
            exact = function(gmpy2.mpfr(given))
            place = gmpy2.exp2(gmpy2.floor(gmpy2.log2(abs(exact))) - 23)
            errors.append(float(abs(gmpy2.mpfr(got) - exact) / place))
    assert LARGEST_ERRORS[name] - 0.15 < max(errors) < LARGEST_ERRORS[name]


def test_the_table_of_functions():
    unit = facts_of(little_config("unit", vector={"enable": True}))
    lines = made.function_lines(unit)
    rows = [line.split(" | ") for line in lines if line.startswith("| `")]
    assert {row[0].strip("| `"): float(row[2]) for row in rows} == LARGEST_ERRORS
    text = product_files(unit)["README.md"][1]
    for paragraph in (made.draw_lines(unit), made.exponent_choice_lines(unit), lines):
        assert "\n".join(["", *paragraph, ""]) in text
    assert made.function_lines(facts_of(little_config())) == []
