"""The pages of `diastole explain`: true to the machine, and what a reader does with them works."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from diastole import cli
from diastole.explain import observe as observing
from diastole.explain import story
from diastole.explain.observe import observe
from diastole.explain.page import write_page
from diastole.explain.shown_run import DATAPATH, EAST, ENGINE, NORTH, WavesDisagree
from diastole.explain.stills import DOCUMENTED, stills
from diastole.explain.waves import Waves
from diastole_hw.plan.modes import Mode
from diastole_sim.spec.operations import PRODUCTS
from support.pages import BROWSERS, CHROMIUM, measured_in, read_in
from support.products import MACHINES, machine
from support.sources import ROOT
from support.sweep import sweep

SIZES = {"m": 9, "k": 14, "n": 7}
NAMES = ["forward", "dx", "dw", "backward"]
GROUPED = machine("explained_nvfp4", "nvfp4", rows=2, cols=2, side=4, data_width=128)
CASES = {
    "pico": (MACHINES["pico"], SIZES),
    "wide": (MACHINES["wide"], SIZES),
    "ports": (MACHINES["ports"], {"m": 21, "k": 18, "n": 26}),
    "nvfp4": (GROUPED, SIZES),
    "mixed": (MACHINES["mixed"], SIZES),
    "turning": (MACHINES["turning"], SIZES),
    "mxfp8_e4m3": (MACHINES["mxfp8_e4m3"], SIZES),  # whose products are rounded
    "full_vectors": (MACHINES["full_vectors"], SIZES),  # whose sums come in two halves
}


def observed(name):
    config, sizes = CASES[name]
    names = NAMES if config.plan.fused else NAMES[:3]
    operands, results, runs = observe(config, names, sizes, seed=3)
    return config, sizes, names, operands, results, runs


@pytest.fixture(scope="module")
def waves():
    """Of `pico`, when :func:`pico` has run it."""
    return []


@pytest.fixture(scope="module")
def pico(waves):
    def kept(seen, *rest):
        waves.append(seen)
        return story.runs_of(seen, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observing, "runs_of", kept)
        return observed("pico")


def total(run, way, sizes):
    """Slots times blocks of the contraction: what all passes of a direction have multiplied."""
    side = "cols" if way.direction == EAST else "rows"
    return sum(each.count * getattr(each, side) for each in run.passes)


@pytest.mark.parametrize("name", [sweep(name) for name in CASES if name != "pico"])
def test_stories_are_true(name):
    """:func:`story.runs_of` compares every number; here: that nothing is left out."""
    check_complete(*observed(name))


def test_stories_of_pico_are_true(pico):
    check_complete(*pico)


def check_complete(config, sizes, names, operands, results, runs):
    side = config.plan.block
    assert [run.mode for run in runs] == [Mode.FORWARD, Mode.DX, Mode.DW, Mode.FUSED][: len(names)]
    for run, result in zip(runs, results, strict=True):
        for way in run.ways:
            other = way.cols if way.direction == NORTH else way.rows
            lanes = -(-sizes[other] // side)
            groups = {(each.t0, each.row if other == way.rows else each.col) for each in run.passes}
            width = config.plan.cols if other == way.cols else config.plan.rows
            covered = {first + n for _, first in groups for n in range(width) if first + n < lanes}
            assert covered == set(range(lanes))
            contraction = way.rows if other == way.cols else way.cols
            blocks = -(-sizes[contraction] // side)
            groups_of_lanes = -(-lanes // width)
            assert total(run, way, sizes) == sizes[way.t] * blocks * groups_of_lanes
        slots = sum(each.count for each in run.passes) * len(run.ways)
        assert len(run.sums) == slots
        assert run.cycles <= result.counters.cycles
        assert len(run.reads) == len(run.waits) == run.cycles
        beats = len(run.reads) - run.reads.count(" ")
        ports = config.plan.ports
        read = result.counters.read_bytes // config.plan.beat_bytes
        assert beats <= read <= beats * ports + 8 * ports, "the header and the command are before"
        written = len(run.writes) * config.plan.beat_bytes
        assert written == result.counters.write_bytes
        assert all(came < last for *_, came, last in run.arrivals)


def altered(operands, name):
    """Return the operands with the code of one operand's last element changed."""
    shown = operands[name]
    (copy,) = shown.stored.copies
    codes = copy.codes.copy()
    codes[copy.shape[0] - 1, copy.shape[1] - 1] ^= 1
    stored = replace(shown.stored, copies=(replace(copy, codes=codes),))
    return operands | {name: replace(shown, stored=stored)}


def altered_mantissa(operands, name):
    """Return the operands with the last significand, from which sums are derived, changed."""
    shown = operands[name]
    (made,) = shown.conversions
    significand = made.significand.copy()
    significand[-1, -1] ^= 1
    conversions = (replace(made, significand=significand),)
    return operands | {name: replace(shown, conversions=conversions)}


@pytest.mark.parametrize("change", [altered, altered_mantissa])
@pytest.mark.parametrize("name", ["X", "W", "dY"])
def test_other_operands_are_noticed(pico, waves, name, change):
    """The story of a run compares every number of its operands with the waves."""
    config, operands = pico[0], pico[3]
    with pytest.raises(WavesDisagree, match=r"sums of cell|held block|vector at"):
        story.runs_of(waves[0], config.plan, change(operands, name))


def test_other_waves_are_noticed(pico, waves):
    """The last bit of one sum, of a cell, in a cycle in which it means something."""
    config, operands, runs = pico[0], pico[3], pico[-1]
    cell = f"{DATAPATH}array.row_0.cell_0.psum"
    at = waves[0].high(f"{ENGINE}walk.start")[2] + runs[2].passes[3].first + 3
    values = dict(waves[0].values)
    values[cell] = [each ^ (n == at) for n, each in enumerate(waves[0][cell])]
    with pytest.raises(WavesDisagree, match=r"sums of cell 0, 0"):
        story.runs_of(Waves(waves[0].cycles, values), config.plan, operands)


# In the documents.

RENEW = "docs are of another tree: python scripts/pictures.py renews {}"


def test_the_page_of_the_documents_is_current(tmp_path):
    page = tmp_path / "page.html"
    assert cli.main(["explain", *DOCUMENTED, "--out", str(page)]) == 0
    kept = ROOT / "docs/explain.html"
    assert page.read_bytes() == kept.read_bytes(), RENEW.format(kept.name)


@pytest.mark.parametrize("browser", BROWSERS[:1])
def test_the_pictures_of_the_documents_are_current(browser):
    """Of the page that lies beside them."""
    page = (ROOT / "docs/explain.html").read_text(encoding="utf-8")
    for name, picture in stills(page, browser).items():
        kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert drawn(picture) == drawn(kept), RENEW.format(name)


def drawn(picture):
    """The elements of a picture, however a browser writes them."""
    return [(node.tag, node.attrib, node.text) for node in ElementTree.fromstring(picture).iter()]


# In a browser.


@pytest.fixture(scope="module", params=BROWSERS)
def told(request, pico, tmp_path_factory):
    """What a reader of the page of `pico` was told."""
    config, sizes, names, operands, results, runs = pico
    values = {name: array for result in results for name, array in result.values.items()}
    stories = list(zip(names, runs, strict=True))
    text = write_page(config, sizes, operands, values, stories, "dw")
    assert len(text.encode()) < 1e6
    return read_in(request.param, text, tmp_path_factory.mktemp("page"))


def test_keys_step(told, pico):
    """The page begins with the first vector of the product that is shown first."""
    runs = pico[-1]
    dw, forward = runs[2].cycles - 1, runs[0].cycles - 1
    first = runs[2].passes[0].first + 1
    assert told["steps"] == [
        *(f"cycle {n} of {dw}" for n in (first, first + 2, first + 6, first + 5, dw, dw)),
        f"cycle 0 of {forward}",
        f"cycle 1 of {forward}",
    ]
    assert told["pressed"] == ["true", "false", "false", "false"]
    assert told["errors"] == []
    assert "serves both products" in told["last"]


def test_keys_of_the_browser_stay_the_browsers(told):
    before, after, play = told["kept"]
    assert (before, play) == (after, "run")


def test_the_theme_is_chosen_and_kept(told):
    """A browser that forbids storage costs the memory of the choice, not the choice."""
    assert told["themes"] == [
        [None, "colours: system", None],
        ["light", "colours: light", "light"],
        ["dark", "colours: dark", "dark"],
        [None, "colours: system", "system"],
        [None, "colours: system", "system"],
        ["light", "colours: light", None],
    ]


@pytest.mark.parametrize("browser", CHROMIUM[:1])
def test_a_telephone_shows_the_whole_page(browser, tmp_path):
    """360 pixels: the picture scrolls, the page does not; buttons are large; text is legible."""
    page = (ROOT / "docs/explain.html").read_text(encoding="utf-8")
    found = measured_in(browser, page, tmp_path, width=360)
    assert found["width"] == found["page"] == 360
    assert found["picture"] > found["stage"], "the picture is wider than the window"
    assert found["buttons"] == 9
    assert found["smallest"] >= 44
    assert found["text"] >= 9
    assert found["light"] == [255, 255, 255]
    assert found["dark"] == [0x15, 0x18, 0x1B]


def test_the_first_cycle_has_a_vector(told):
    assert told["first"]["vector"] == "↑ X[0…3, 0] arrives"
    assert "shared exponent" in told["first"]["chosen"]


PLACE = re.compile(r"(X|W|dY|Y|dX|dW)\[([\d…]+), ([\d…]+)\]")


def span(text):
    first, _, last = text.partition("…")
    return slice(int(first), int(last or first) + 1)


def named(text):
    """The tensor and the places of a name such as ``X[4…7, 8]``."""
    name, *places = PLACE.search(text).groups()
    return name, *map(span, places)


def copies_of(result, operands):
    """The numbers of both factors of a result, of the copies that the product reads."""
    product = PRODUCTS[result]
    return {each.name: operands[each.name].values(product.copy(each)) for each in product.factors}


def dot(text, operands):
    """What ``dW[8, 4…7] over m = 4…7`` is, from the definition of the product."""
    name, rows, columns = named(text)
    part = span(re.search(r"over \w = ([\d…]+)", text)[1])
    of = copies_of(name, operands)
    found = {
        "Y": lambda: of["X"][rows, part] @ of["W"][part, columns],
        "dX": lambda: of["dY"][rows, part] @ of["W"][columns, part].T,
        "dW": lambda: of["X"][part, rows].T @ of["dY"][part, columns],
    }[name]()
    return found.ravel()


def close(shown, wanted):
    """Nine digits are shown; nothing is shown beyond the edge of a tensor."""
    numbers = [number for number in shown if number is not None]
    return len(numbers) == len(wanted) and np.allclose(numbers, wanted, rtol=1e-8, atol=1e-30)


def test_sums_are_of_the_vector_that_they_name(told, pico):
    """The sums beside a vector are most often those of an earlier one. The page names the vector
    and the block of which they are, and shows that vector; row times vector is the sum."""
    found = check_beside(pico[3], told)
    assert len(found) == sum(len(run.sums) for run in pico[-1]), "each slot has a cycle"
    earlier = sum(bool(arrives) and first not in arrives for arrives, first, *_ in found)
    assert earlier > len(found) / 2
    assert any(second != holds for *_, second, holds in found)
    for beside, run in zip(told["beside"].values(), pico[-1], strict=True):
        first, last = run.passes[0].first, run.passes[-1].first
        end = last + run.passes[-1].count * len(run.ways) - 1
        assert (beside[0][0], beside[-1][0]) == (first + 3, end + 3), "as in the waves"


def check_beside(operands, told):
    """What arrives, vector and block of the sums, and the block in the cell, wherever a cell shows
    sums."""
    found = []
    for beside in told["beside"].values():
        for cycle, result, of, arrives, holds, vector, sums in beside:
            what = f"cycle {cycle}: {result} {of}"
            first, second = re.findall(r"\w+\[[^]]*\]", of)
            name, rows, columns = named(first)
            arrays = copies_of(named(result)[0], operands)
            assert close(vector, arrays[name][rows, columns].ravel()), what
            assert close(sums, dot(result, operands)), what
            assert (second != holds) == ("the block before" in of), what
            one_block = named(first)[1 if "over m" in result else 2]
            alone = span(re.search(r"over \w = ([\d…]+)", result)[1]) == one_block
            assert alone == ("the cell before" not in of), what
            found.append((arrives, first, second, holds))
    return found


def test_the_legend_is_complete(told):
    """Every colour of every cycle, but that of ink and of paper, has a sample with words."""
    legend = {
        colour for fill, stroke, words in told["legend"] for colour in (fill, stroke) if words
    }
    assert set(told["colours"]) <= legend
    assert len(told["colours"]) > 12, "the reader has seen them"


def test_what_is_pointed_at_adds_up_to_the_result(told, pico):
    """Every element of Y: its partial sums over the blocks of K, as the page tells them, are it."""
    _, sizes, _, _, results, _ = pico
    expected = results[0].y
    blocks = [f"{k}…{min(k + 4, sizes['k']) - 1}" for k in range(0, sizes["k"], 4)]
    assert len(told["sums"]) == sum(sizes[a] * sizes[b] for a, b in ("mn", "mk", "kn"))
    for (row, col), value in np.ndenumerate(expected):
        parts = told["sums"][f"Y[{row}, {col}]"]
        assert sorted(parts) == sorted(blocks)
        assert np.float32(sum(parts.values())) == value


def test_chosen_sums_derive_the_integer_of_the_waves(told, pico):
    check_derived(told)
    assert len(told["derived"]) > 500


def check_derived(told):
    """A chosen sum: mantissas, shift and rounding give what the waves have."""
    for what, (words, got, rounding) in told["derived"].items():
        before, added, total, waves = re.fullmatch(
            r"(-?\d+) from the cell before \+ (-?\d+) = (-?\d+); the waves have (-?\d+)", words
        ).groups()
        assert int(before) + int(added) == int(total) == int(waves) == int(got), what
        numerator, shift, quotient = re.match(r"(-?\d+) / 2\^(\d+) = (-?\d+), ", rounding).groups()
        half = 2 ** int(shift) // 2
        assert (int(numerator) + half) // 2 ** int(shift) == int(quotient) == int(added), what
        exact = int(quotient) * 2 ** int(shift) == int(numerator)
        assert rounding.endswith("exactly" if exact else "to nearest, ties upward"), what


def test_chosen_elements_say_how_they_were_rounded(told, pico):
    """By hand from what the line says: a draw that reaches the limit goes up."""
    operands = pico[3]
    seen = {text: rest for text, *rest in told["draws"]}
    assert set(seen) == {
        f"{name}[{row}, {col}]"
        for name, operand in operands.items()
        for row, col in np.ndindex(operand.floats.shape)
    }
    directions = set()
    for text, (rounding, mantissa, stored) in seen.items():
        name, (row, col) = text.split("[")[0], map(int, re.findall(r"\d+", text.split("[")[1]))
        made, value = operands[name].conversions[0], operands[name].values(0)[row, col]
        significand = int(made.significand[row, col])
        assert (
            mantissa == f"{significand} = {'-' * (significand < 0)}{abs(significand):04b} in binary"
        )
        assert stored.startswith(f"{significand} · 2^")
        assert float(stored.rpartition(" = ")[2]) == value
        if draw := re.match(
            r"stochastic-b, draw (\d+) of 0…255: ⌊([\d.e-]+) · 512⌋ \+ 2 · \1 \+ 1 = (\d+), "
            r"(less than|at least) 512: (up|down) to (\d+)",
            rounding,
        ):
            drawn, part, total, said, direction, rounded = draw.groups()
            assert int(drawn) == made.draws[row, col]
            assert int(float(part) * 512) + 2 * int(drawn) + 1 == int(total)
            assert (said == "at least") == (int(total) >= 512) == (direction == "up")
            assert min(int(rounded), 15) == abs(significand)
            directions.add(direction)
        else:
            assert name != "dY" or "exactly" in rounding, rounding
    assert directions == {"up", "down"}


def test_mantissas_are_shown(told, pico):
    made = pico[3]["W"].conversions[0]
    shown = np.array(told["mantissas"]["held"], int).reshape(4, 4)
    assert np.array_equal(shown, made.significand[:4, :4].T)
    place = made.exponent[0, 0] - 3
    assert told["mantissas"]["label"] == f"W[0…3, 0…3] · 2^{place}"
    x = pico[3]["X"].conversions[0]
    assert told["mantissas"]["south"] == [str(each) for each in x.significand[0, :4]]
    assert told["mantissas"]["arrives"] == f"↑ X[0, 0…3] arrives · 2^{x.exponent[0, 0] - 3}"


def test_every_operand_was_seen(told, pico):
    assert told["elements"] == {
        f"{name}[{row}, {col}]": value
        for name, operand in pico[3].items()
        for (row, col), value in np.ndenumerate(operand.values(0))
    }


def test_blocks_say_where_they_are(told):
    assert all(text.startswith("block ") or "another product" in text for text in told["blocks"])
    assert any("100 % of its sums" in text for text in told["blocks"])


def in_a_browser(name, folder):
    config, sizes, names, operands, results, runs = observed(name)
    values = {name: array for result in results for name, array in result.values.items()}
    text = write_page(config, sizes, operands, values, list(zip(names, runs, strict=True)), "dx")
    return operands, read_in(BROWSERS[0], text, folder)


@pytest.mark.parametrize("browser", BROWSERS[:1])
@pytest.mark.parametrize("name", [sweep("mixed"), sweep("mxfp8_e4m3"), sweep("full_vectors")])
def test_pages_derive_what_the_waves_have(name, browser, tmp_path):
    """In other formats, with products that are rounded and groups that are folded."""
    _, data = in_a_browser(name, tmp_path)
    assert data["errors"] == []
    check_derived(data)


@pytest.mark.parametrize("browser", BROWSERS[:1])
def test_a_page_of_two_copies_runs(tmp_path, browser):
    operands, data = in_a_browser("nvfp4", tmp_path)
    assert data["errors"] == []
    check_derived(data)
    assert check_beside(operands, data)
    values = operands["X"].values
    assert operands["X"].copies == 2
    assert not np.array_equal(values(0), values(1)), "a copy that tells which it is"
