"""The playground of the documents: its arithmetic against the numpy golden model, its page, and
what the page says without its machine. ``tests/sweeps`` tests the module in WebAssembly."""

import re

import numpy as np
import pytest

from diastole.config.presets import PRESETS
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.operations import OPERATIONS
from oracle import threefry
from support.pages import BROWSERS
from support.playground import FACTS, PAGE, bits, in_node, read_in, script
from support.sources import ROOT

AXES = {"X": "mk", "W": "kn", "dY": "mn"}


def operands(rng, sizes, spread):
    """Signed floats of a few binades or of most, with zeros, ties and subnormal numbers."""
    made = {}
    for name, (down, along) in AXES.items():
        shape = sizes[down], sizes[along]
        words = [
            rng.choice((0, 1)) << 31 | rng.randint(*spread) << 23 | rng.getrandbits(23)
            for _ in range(shape[0] * shape[1])
        ]
        for place in range(len(words)):
            kind = rng.randrange(12)
            if kind == 0:
                words[place] = rng.choice((0, 1 << 31, 1, 0x807FFFFF))
            elif kind < 4:  # a few bits: units and ties of many blocks
                words[place] &= 0xFFC00000
        made[name] = np.array(words, np.uint32).view(np.float32).reshape(shape)
    return made


def test_arithmetic_is_the_golden_model_s(tmp_path, rng):
    cases, wanted = [], []
    for number in range(160):
        spread = ((124, 129), (110, 140), (1, 120), (1, 254))[number % 4]
        sizes = {axis: rng.randint(1, 16) for axis in "mkn"}
        name = list(OPERATIONS)[number // 4 % 4]
        seed, step = rng.getrandbits(32), rng.getrandbits(32)
        floats = operands(rng, sizes, spread)
        device = NumpyDevice(PRESETS["pico"].numerics, seed=seed)
        needed = OPERATIONS[name].operand_names
        stored = {
            each: device.convert(floats[each], each.lower(), tag=tag, step=step)
            for tag, each in enumerate(AXES)
            if each in needed
        }
        result = getattr(device, name)(*(stored[each] for each in needed))
        each = {operand: bits(floats[operand]) for operand in needed}
        key = {"seed": seed, "step": step}
        cases.append({"operation": name, "operands": each, "key": key})
        wanted.append(
            {
                "results": {each: bits(values + 0) for each, values in result.values.items()},
                "stored": {each: bits(tensor.values() + 0) for each, tensor in stored.items()},
            }
        )
    for case, found, want in zip(
        cases, in_node("arithmetic", tmp_path, cases), wanted, strict=True
    ):
        assert found["stored"] == want["stored"], case
        assert found["results"] == want["results"], case


def test_random_bits_are_threefry(tmp_path, rng):
    words = [[rng.getrandbits(32) for _ in range(4)] for _ in range(50)]
    wanted = [list(threefry.threefry2x32((a, b), (c, d))) for a, b, c, d in words]
    assert in_node("threefry", tmp_path, words) == wanted


def test_the_page_refers_to_what_the_build_makes():
    page = (PAGE / "page.html").read_text()
    made = {path.name for path in PAGE.glob("*.js")} | {script("playground").SCRIPT}
    named = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sorted(named) == sorted(f"playground/{name}" for name in made)
    assert ":file: playground/page.html" in (ROOT / "docs" / "playground.md").read_text()
    parts = set(re.findall(r'data-part="(\w+)"', page))
    used = re.findall(r'part\("(\w+)"\)', (PAGE / "page.js").read_text())
    assert set(used) == parts - {"operands"}


@pytest.mark.parametrize("browser", BROWSERS)
def test_what_a_reader_sees(tmp_path, browser):
    told = read_in(browser, tmp_path, pico={"facts": FACTS})
    assert (told["errors"], told["missing"]) == ([], "")
    counts = {"forward": 12, "dx": 20, "dw": 15, "backward": 35, "train": 10}
    assert set(told["runs"]) == set(counts)
    for name, count in counts.items():
        run = told["runs"][name]
        kind = "losses" if name == "train" else "numbers"
        assert run["error"] == ""
        assert run["verdict"].startswith(f"All {count} {kind} equal the golden model, bit for bit.")
        assert run["good"] == "good"
        assert run["summary"] == "100 cycles, 1 of them with work for the array."
        hidden = 9 if name == "train" else count  # the first loss is of cycle 1
        assert (run["empty"], run["hidden"]) == (hidden, 0)
        assert (run["right"], run["wrong"]) == (count, 0)
        assert run["first"] == "Cycle 1 of 100: no word moves."
        assert run["second"] == f"Cycle 2 of 100: a word of {run['read']} is read."
        assert run["last"] == "Cycle 100 of 100: the machine interrupts the host."


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_wrong_machine_is_seen(tmp_path, browser):
    before = "<script>const WRONG = 1</script>"
    told = read_in(browser, tmp_path, pico={"facts": FACTS}, before=before)
    for name, run in told["runs"].items():
        count = {"train": 10, "backward": 2}.get(name, 1)
        words = rf"{count} of \d+ \w+ differ from the golden model\."
        assert re.match(words, run["verdict"]), run["verdict"]
        assert (run["good"], run["wrong"]) == ("bad", count)


@pytest.mark.parametrize("browser", BROWSERS)
def test_input_that_is_refused(tmp_path, browser):
    told = read_in(browser, tmp_path, pico={"facts": FACTS})
    assert told["refused"] == [
        ["row 2 of X has the length 1, and row 1 the length 2; all lengths must be equal", True],
        ['X has "x"; a number from -1e9 to 1e9 is needed, such as -0.5', True],
        ["W has 5 rows; X has 2 columns, and both must be equal", True],
        ["X has 1 rows and 17 columns; at most 16 are possible here", True],
    ]


MISSING = {
    None: "The machine is not here: pico.js was not made. make docs makes it.",
    "ziglang==1": "The machine is not here: this site was built without ziglang==1, the compiler "
    "for WebAssembly. make docs builds the page where pip can install the compiler.",
}


@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize("missing", MISSING)
def test_a_page_without_its_machine(tmp_path, browser, missing):
    told = read_in(browser, tmp_path, pico=missing and {"missing": missing})
    assert (told["missing"], told["runs"]) == (MISSING[missing], {})


def test_a_build_without_the_compiler(tmp_path, monkeypatch, capsys):
    playground = script("playground")

    def absent(product, compiler):
        raise playground.NoCompiler("pip did not install ziglang")

    monkeypatch.setattr(playground, "generated_product", lambda config: tmp_path)
    monkeypatch.setattr(playground.Product, "load", lambda folder: None)
    monkeypatch.setattr(playground, "module", absent)
    playground.write(tmp_path / "site")
    (compiler,) = script("wasm_module").COMPILER
    wanted = f'"use strict";\nconst PICO = {{"missing": "{compiler}"}};\n'
    assert (tmp_path / "site" / playground.SCRIPT).read_text() == wanted
    said = "diastole: the playground lacks its machine: pip did not install ziglang\n"
    assert capsys.readouterr().err == said
