"""Activations and optimisers of a user's file on the command line."""

import hashlib
import json
from pathlib import Path

import pytest

from command_line import error
from support.own_page import PAGE, write_examples

UNIT = ("--set", "vector.enable=true")
GOLDEN = (
    "train", "nano.toml", "--task", "digits", *UNIT, "--steps", "3", "--backend", "golden"
)  # fmt: skip
COMPARE = ("compare", "nano.toml", *UNIT, "--steps", "2", "--seeds", "0", "--jobs", "1")
SEE_HELP = "(see diastole train --help)"


@pytest.fixture
def own(diastole, tmp_path):
    """The command line in a folder with the files of the page."""
    write_examples(tmp_path)
    return diastole


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_result_says_what_was_used(own):
    words = ("--optimizer", "lion.py:Lion", "--activation", "mish.py:mish", "--verify")
    record = own(*GOLDEN, *words, "--json").json
    assert (record["optimizer"], record["activation"]) == ("lion.py:Lion", "mish.py:mish")
    assert record["optimizer_sha256"] == sha256("lion.py")
    assert record["activation_sha256"] == sha256("mish.py")
    assert (record["verified"], record["mismatches"]) == (True, 0)
    assert (record["rate"], record["momentum"], record["betas"], record["weight_decay"]) == (
        0.01, None, [0.9, 0.99], 0.0
    )  # fmt: skip
    plain = own(*GOLDEN, "--json").json
    assert plain["optimizer_sha256"] is plain["activation_sha256"] is None
    assert plain["weights_sha256"] != record["weights_sha256"]
    told = own(*GOLDEN, *words, "--betas", "0.5,0.75", "--weight-decay", "2", "--json").json
    assert (told["betas"], told["weight_decay"]) == ([0.5, 0.75], 2.0)
    assert told["weights_sha256"] != record["weights_sha256"]
    said = own(*GOLDEN, *words).out
    assert (
        f"lion.py:Lion (SHA-256 {sha256('lion.py')[:12]}...), rate 0.01 falling, betas 0.9" in said
    )
    assert f"hidden 64, mish.py:mish (SHA-256 {sha256('mish.py')[:12]}...); whole steps" in said


def test_ours_as_a_file_is_ours(own):
    """The same class in a file gives the same weights."""
    imports = ("program.recipe import Adam", "program.chains.activations import gelu")
    Path("ours.py").write_text("".join(f"from diastole_sim.{each}\n" for each in imports))
    ours = own(*GOLDEN, "--optimizer", "adam", "--activation", "gelu", "--json").json
    words = ("--optimizer", "ours.py:Adam", "--activation", "ours.py:gelu", "--json")
    assert own(*GOLDEN, *words).json["weights_sha256"] == ours["weights_sha256"]


@pytest.mark.parametrize("place", ["other/folder", "with space", "with: a colon", "x.py:y"])
def test_files_anywhere(own, place):
    Path(place).mkdir(parents=True)
    Path("lion.py").rename(f"{place}/lion.py")
    for name in (f"{place}/lion.py:Lion", f"{Path.cwd()}/{place}/lion.py:Lion"):
        record = own(*GOLDEN, "--optimizer", name, "--json").json
        assert record["optimizer"] == name
        assert record["optimizer_sha256"] == sha256(f"{place}/lion.py")


def test_what_a_file_prints_is_no_result(own, capsys):
    Path("loud.py").write_text("print('loud')\n" + Path("mish.py").read_text())
    assert own(*GOLDEN, "--activation", "loud.py:mish", "--json").json["activation"]


def changed(name, before, after):
    """A file of the page with another text in it."""
    text = Path(name).read_text()
    assert before in text
    Path("bad.py").write_text(text.replace(before, after))


def of_option(name, said):
    """A message about the value of an option."""
    return f"{name}{'' if said.startswith('must ') else ':'} {said}"


OF_LION = "bad.py:Lion"
NO_LINE = "read r0 instead, which options.gradient() returns: "
CONSTANTS = "2^127, b1, 1-b1, b2, 1-b2, -lr_t, 1-lr_t*decay"
MISTAKES = [
    ("def of_step", "def step", (
     f"{OF_LION}: a Lion must have a method of_step(step), which returns the constants of a step")),
    ("def chain", "def chains", (
     f"{OF_LION}: a Lion must have a method chain(options), which returns the update")),
    ("def constants", "def constant", (
     f"{OF_LION}: a Lion must have a method constants(), which returns the fixed constants")),
    ("def of_step(self, step: int)", "def of_step(self)", (f"{OF_LION}: of_step(0) fails: "
     "TypeError: Lion.of_step() takes 1 positional argument but 2 were given")),
    ("= self.rate(step)", "= self.rates(step)", (f"{OF_LION}: of_step(0) fails: bad.py, line 38: "
     "AttributeError: 'Lion' object has no attribute 'rates': rate = self.rates(step)")),
    ("{g} K[1-b2]", "{g} K[b3]", (f"{OF_LION}: chain(options): bad.py, line 24: there is no "
     f"constant b3, only {CONSTANTS}: r3 = mul s0 K[b3]")),
    ('"-lr_t": -rate', '"lr": -rate', (
     f"{OF_LION}: the text uses K[-lr_t], but constants() and of_step(step) only define 1-b1, "
     "1-b2, 1-lr_t*decay, b1, b2, lr")),
    ('"b1": first, "1', '"b1": None, "1', (
     f"{OF_LION}: constants(): b1 must be a finite number in the range of float32, not None")),
    ('"-lr_t": -rate', '"-lr_t": -1e39', (
     f"{OF_LION}: of_step(0): -lr_t must be a finite number in the range of float32, not -1e+39")),
    ('"-lr_t": -rate', '"b1": 0, "-lr_t": -rate', (
     f"{OF_LION}: b1 is in constants() and in of_step(): keep only one")),
    ('{"-lr_t": -rate', '{f"c{step}": 1.0, "-lr_t": -rate', (
     f"{OF_LION}: of_step(step) must return the same names for every step, at most 64; step 0 "
     "has c0, -lr_t, 1-lr_t*decay, step 1 has c1, -lr_t, 1-lr_t*decay")),
    ("return update_chain", "return [text] or update_chain", (
     f"{OF_LION}: chain(options) must return the result of update_chain, not a list")),
    ("mad s2 K[b2] r3", "mad s2 s1 r3", (
     f"{OF_LION}: chain(options): bad.py, line 25: an instruction reads at most one stream of "
     "the panel, not two: r3 = mad s2 s1 r3 -> o1")),
    ("-> o1", "-> o3", (
     f"{OF_LION}: chain(options): bad.py, line 25: there is no stream o3, only s0 (g), s1 (w), "
     "s2 (m), o0 (w), o1 (m): r3 = mad s2 K[b2] r3 -> o3")),
    ("-> o1", "", f"{OF_LION}: chain(options): no line writes o1, m"),
    ("r2 = mad r1 K[-lr_t]", "r4 = mad r1 K[-lr_t]", (
     f"{OF_LION}: chain(options) fails: bad.py, line 31: ValueError: lion must leave the new "
     "weights in r2 and write r2 to o0: the image is made from r2: return "
     'update_chain("lion", options, text, state=("m",), constants=constants)')),
    ("_, g = options.gradient()", 'g = "s0"', (f"{OF_LION}: chain(options) fails: bad.py, line 31: "
     "ValueError: lion reads s0, the gradient before the options are applied: "
     f"{NO_LINE}return "
     'update_chain("lion", options, text, state=("m",), constants=constants)')),
    ('state=("m",)', 'state=("image",)', (
     f"{OF_LION}: chain(options) fails: bad.py, line 31: ValueError: lion cannot name a state "
     "image: g, w, image are the gradient, the weights and the image of the weights: return "
     'update_chain("lion", options, text, state=("image",), constants=constants)')),
]  # fmt: skip
"""In lion.py: what, becomes what, and is said."""


@pytest.mark.parametrize("before, after, said", MISTAKES)
def test_mistakes_in_an_optimiser(own, before, after, said):
    changed("lion.py", before, after)
    result = own(*GOLDEN, "--optimizer", OF_LION)
    assert (result.code, result.out) == (2, "")
    assert result.err == error(said)


def test_the_mistake_that_the_page_shows(own):
    text = Path("lion.py").read_text()
    Path("lion.py").write_text(text.replace("{g} K[1-b2]", "{g} K[b3]"))
    (line,) = own(*GOLDEN, "--optimizer", "lion.py:Lion").err
    assert f"    {line.removeprefix('diastole: error: ')}\n" in PAGE.read_text()


IN_FILES = {
    "of_optimizer": [
        ("rate: Callable[[int], float]", "speed: float = 1.0", (
         "bad.py:Lion: must have a parameter rate, a function that gives the learning rate of a "
         "step; the parameters are speed, betas, weight_decay")),
        (" = (0.9, 0.99)", "", (
         "bad.py:Lion: the class is called with rate= and the options of the command, but also "
         "needs betas: give each parameter a default")),
        ("from collections.abc", "from collextions.abc", ("bad.py, line 1: ModuleNotFoundError: "
         "No module named 'collextions': from collextions.abc import Callable")),
        ("from dataclasses import", "from dataclasses,", ("bad.py, line 2: SyntaxError: invalid "
         "syntax: from dataclasses, dataclass")),
        ("class Lion", "class Lyon",
            "bad.py does not define Lion; the file defines Lyon; did you mean Lyon?"),
        ("@dataclass", "1 / 0\n@dataclass", ("bad.py, line 8: ZeroDivisionError: division by "
         "zero: 1 / 0")),
        ("@dataclass", "raise SystemExit\n@dataclass", ("bad.py, line 8: SystemExit: no message: "
         "raise SystemExit")),
    ],
    "of_activation": [
        ("r1 = exp r0", "r1 = exp s0", (
         "bad.py:mish: forward: bad.py, line 10: the operand of exp is not a register: r1 = exp "
         "s0")),
        ("r2 = mul r1 r2 ", "r2 = mul r1 s3 ", (
         "bad.py:mish: forward: bad.py, line 12: there is no stream s3, only s0 (input), o0 "
         "(value), o1 (kept): r2 = mul r1 s3")),
        ("-> o1", "", "bad.py:mish: forward: no line writes o1, kept"),
        ('constants={"2": 2.0},', "", ("bad.py:mish: forward: bad.py, line 11: there is no "
         "constant 2, only none: "
         "r2 = add r1 K[2]")),
        ('{"2": 2.0}', '{"2": "2"}', (
         "bad.py:mish: constants: 2 must be a finite number in the range of float32, not '2'")),
        ('{"2": 2.0}', "[2.0]", ("bad.py:mish: constants must be a dict of numbers by name, not a "
         "list")),
        ('name="mish",', 'name="mish", kept=("F32",),', ("bad.py:mish: kept must be a tuple of "
         "Kind.F32, Kind.BF16 or Kind.MASK, not ('F32',)")),
        ('name="mish",', 'name="mish", kept=([],),', ("bad.py:mish: kept must be a tuple "
         "of Kind.F32, Kind.BF16 or Kind.MASK, not ([],)")),
        ('name="mish"', "label=1", ("bad.py:mish: mish() fails: bad.py, line 7: TypeError: "
         "Activation.__init__() got an unexpected keyword argument 'label': return Activation(")),
        ("def mish()", "def mish(slope)", (
         "bad.py:mish: an activation is called without arguments, but mish needs slope: give "
         "each argument a default")),
        ("return Activation", "return dict", (
         "bad.py:mish: must be an Activation of diastole_sim.program.chains.activations, or a "
         "function without arguments that returns an Activation, not a dict")),
    ],
}  # fmt: skip
"""What is wrong as soon as the file is read."""


@pytest.mark.parametrize("before, after, said", IN_FILES["of_optimizer"])
def test_mistakes_in_the_file_of_an_optimiser(own, before, after, said):
    changed("lion.py", before, after)
    result = own(*GOLDEN, "--optimizer", OF_LION)
    assert (result.code, result.err) == (2, error(f"{of_option('--optimizer', said)} {SEE_HELP}"))


@pytest.mark.parametrize("before, after, said", IN_FILES["of_activation"])
def test_mistakes_in_the_file_of_an_activation(own, before, after, said):
    changed("mish.py", before, after)
    result = own(*GOLDEN, "--activation", "bad.py:mish")
    assert (result.code, result.err) == (2, error(f"{of_option('--activation', said)} {SEE_HELP}"))


FORM = "must be FILE.py:NAME, where NAME is a name in the file, not"


@pytest.mark.parametrize(
    "given, said",
    [
        ("lino.py:Lion", "there is no file lino.py"),
        ("lion.py:Lino", "lion.py does not define Lino; the file defines Lion; did you mean Lion?"),
        ("lion.py:dataclass", "lion.py:dataclass: must have a parameter rate"),
        ("lion.py", ("must be one of sgd, nesterov, lars, rmsprop, adam, adamw, adagrad, or "
         "FILE.py:NAME, not lion.py")),
        ("lion", ("must be one of sgd, nesterov, lars, rmsprop, adam, adamw, adagrad, or "
         "FILE.py:NAME, not lion")),
        ("lion.py:", f"{FORM} lion.py:"),
        (":Lion", f"{FORM} :Lion"),
        ("lion.py:a b", f"{FORM} lion.py:a b"),
        (".:Lion", ".: Is a directory"),
        ("/dev/zero:Lion", "/dev/zero: is not a regular file"),
        ("nano.toml:Lion", "nano.toml, line "),
        ("bytes.py:Lion", "bytes.py: is not a Python file: the text is not UTF-8"),
        ("null.py:Lion", "null.py: "),
        ("empty.py:Lion", "empty.py does not define Lion; the file defines no function or class"),
        ("mish.py:mish", "mish.py:mish: must have a parameter rate"),
    ],
)  # fmt: skip
def test_what_is_no_optimiser(own, given, said):
    Path("bytes.py").write_bytes(b"\xff\xfe")
    Path("empty.py").write_text("")
    Path("null.py").write_bytes(b"x = 1\0\n")
    result = own(*GOLDEN, "--optimizer", given)
    assert (result.code, result.out, len(result.err)) == (2, "", 1)
    assert result.err[0].startswith(f"diastole: error: {of_option('--optimizer', said)}")
    assert result.err[0].endswith(SEE_HELP)


def test_a_function_that_returns_no_optimiser(own):
    Path("own2.py").write_text("def f(rate):\n    return 3\n")
    result = own(*GOLDEN, "--optimizer", "own2.py:f")
    said = (
        "own2.py:f: f() returned an int; f must return an object with a method chain(options), "
        "which returns the update"
    )
    assert (result.code, result.err) == (2, error(said))


def test_options_that_it_has_not(own):
    result = own(*GOLDEN, "--optimizer", "lion.py:Lion", "--momentum", "0.5")
    said = (
        "--momentum is an option of --optimizer sgd and nesterov and lars and rmsprop, not of "
        "lion.py:Lion, which has no parameter momentum: leave --momentum out"
    )
    assert (result.code, result.err) == (2, error(said))


@pytest.mark.parametrize(
    "words, said",
    [
        (("--state", "state.npz"), (
         "--state works only for --task text: give --save FILE, and later --save FILE --resume")),
    ],
)  # fmt: skip
def test_where_there_is_none(own, words, said):
    """So no state goes on with another file."""
    given = [word for word in GOLDEN if words[0] != "--master" or word not in UNIT]
    result = own(*given, *words, "--optimizer", "lion.py:Lion")
    assert (result.code, result.err) == (2, error(said))


def test_a_comparison(own, tmp_path):
    words = (
        "--over",
        "optimizer=adam,lion.py:Lion",
        "--configuration",
        "m: activation=mish.py:mish",
    )
    result = own(*COMPARE, *words, "--json")
    assert result.code == 0
    code = {"file": "lion.py", "name": "Lion", "sha256": sha256("lion.py")}
    other = {"file": "mish.py", "name": "mish", "sha256": sha256("mish.py")}
    files = [each["files"] for each in result.json["configurations"]]
    assert files == [{"activation": other}, {"activation": other, "optimizer": code}]
    names = [each["name"] for each in result.json["configurations"]]
    assert names == ["m adam", "m optimizer=lion.py:Lion"]
    lines = [json.loads(line) for line in Path("comparison.jsonl").read_text().splitlines()]
    options = lines[-1]["options"]["program"]
    assert options["optimizer"] == code
    assert options["activation"]["sha256"] == sha256("mish.py")
    alone = own("train", *GOLDEN[1:6], "--steps", "2", "--backend", "golden", "--optimizer",
                "lion.py:Lion", "--activation", "mish.py:mish", "--json").json  # fmt: skip
    (run,) = result.json["configurations"][1]["runs"]
    assert run["weights_sha256"] == alone["weights_sha256"]
    own(*COMPARE, *words)
    assert len(Path("comparison.jsonl").read_text().splitlines()) == len(lines)
    Path("lion.py").write_text(Path("lion.py").read_text().replace("0.99)", "0.98)"))
    again = own(*COMPARE, *words, "--json").json
    assert again["configurations"][1]["runs"][0]["weights_sha256"] != run["weights_sha256"]
    assert again["configurations"][0]["runs"] == result.json["configurations"][0]["runs"]


def test_files_of_configurations_and_plans(own):
    """In quotes, with spaces; beside the plan."""
    Path("my files").mkdir()
    Path("lion.py").rename("my files/lion.py")
    quoted = 'optimizer="my files/lion.py:Lion"'
    named = own(*COMPARE, "--configuration", f"a: {quoted}", "--json").json
    Path("my files/plan.toml").write_text(
        'steps = 2\nseeds = [0]\nmachine = "../nano.toml"\nset = {"vector.enable" = true}\n'
        'over = {optimizer = ["lion.py:Lion"]}\n'
    )
    planned = own("compare", "--plan", "my files/plan.toml", "--jobs", "1", "--json").json
    (one,), (other,) = (each["configurations"][0]["runs"] for each in (named, planned))
    assert one["weights_sha256"] == other["weights_sha256"]


def test_a_comparison_refuses_what_train_refuses(own):
    result = own(*COMPARE, "--over", "optimizer=lion.py:Lino")
    said = (
        "--over: optimizer: lion.py does not define Lino; the file defines Lion; did you mean Lion?"
    )
    assert (result.code, result.err) == (2, error(said))


def test_the_step_that_is_estimated(own):
    """Lion has fewer instructions and state than Adam, and more than SGD alone."""
    task = ("estimate", "nano.toml", *UNIT, "--task", "digits", "--json")
    words = {"sgd": ("--momentum", "0"), "lion.py:Lion": (), "adam": ()}
    cycles = [own(*task, "--optimizer", name, *more).json["cycles"] for name, more in words.items()]
    assert cycles == sorted(cycles)
    assert cycles[0] < cycles[1] < cycles[2]
    assert own(*task, "--hidden", "16").json["cycles"] < own(*task).json["cycles"]
    plain = own(*task).json["cycles"]
    assert own(*task, "--activation", "mish.py:mish").json["cycles"] > plain
    result = own(*task, "--optimizer", "lion.py:Lino")
    said = "--optimizer: lion.py does not define Lino; the file defines Lion; did you mean Lion?"
    assert (result.code, result.err) == (2, error(f"{said} (see diastole estimate --help)"))
