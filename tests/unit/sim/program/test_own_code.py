"""Files of users: what is read once runs everywhere, and what fails in them has a line."""

import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from diastole_sim.program.chain import register_holds_output
from diastole_sim.program.chains.updates import Options
from diastole_sim.program.own_code import OwnCode, OwnCodeError, guarded
from diastole_sim.program.own_parts import own_activation, own_optimizer
from diastole_sim.trainer.options import ProgramOptions, RecipeOptions
from support.numerics import make_numerics
from support.own_page import write_examples
from support.small_programs import make_limits
from support.texts import exactly


@pytest.fixture
def read(tmp_path):
    """A file with this text, as code of the name."""

    def written(text, name="found", file="own.py"):
        (tmp_path / file).write_text(text)
        return OwnCode.read(f"{tmp_path}/{file}:{name}")

    return written


@pytest.fixture
def lion(tmp_path):
    write_examples(tmp_path)
    return OwnCode.read(f"{tmp_path}/lion.py:Lion")


def test_what_was_read_runs(read):
    code = read("found = 1")
    assert read("found = 2").load() == 2
    assert code.load() == 1
    assert code != read("found = 2")


def test_options_go_to_other_processes(lion, tmp_path):
    """With their source: the file may be gone, or on another computer."""
    options = ProgramOptions(limits=make_limits(make_numerics()), optimizer=lion, betas=(0.5, 0.75))
    (tmp_path / "options").write_bytes(pickle.dumps(options))
    (tmp_path / "lion.py").unlink()
    text = (
        "import pickle, sys; o = pickle.load(open(sys.argv[1], 'rb'));"
        "again = pickle.loads(pickle.dumps(o));"
        "print(o.choice.make(rate=float, betas=o.betas).constants(), o == again)"
    )
    run = [sys.executable, "-c", text, str(tmp_path / "options")]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert out == "{'b1': 0.5, '1-b1': 0.5, 'b2': 0.75, '1-b2': 0.25} True\n"


def test_dataclasses_with_late_annotations(read):
    code = read(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass found:\n    rate: Unknown = 3\n"
    )
    assert code.load()().rate == 3


def test_files_of_one_name_are_apart(read, tmp_path):
    (tmp_path / "folder").mkdir()
    one, other = read("class found: pass"), read("class found: pass", file="folder/own.py")
    assert one.sha256 == other.sha256
    assert one.load() is not other.load()
    assert one.load() is read("class found: pass").load()


def test_a_file_does_not_see_its_neighbours(read):
    read("x = 1", file="neighbour.py")
    code = read("import neighbour")
    with pytest.raises(
        OwnCodeError, match=r"own\.py, line 1: ModuleNotFoundError: No module named"
    ):
        code.load()
    assert not [
        name for name in sys.modules if name.startswith("own_code_") and "neighbour" in name
    ]


def test_another_encoding(tmp_path):
    (tmp_path / "own.py").write_bytes("# coding: latin-1\nfound = '\xe4'\r\n".encode("latin-1"))
    assert OwnCode.read(f"{tmp_path}/own.py:found").load() == "\xe4"


def test_the_line_is_that_of_the_file(read):
    """A message names the line of the user's file, not a line of a library that the file calls."""
    code = read("import json\ndef found():\n    return json.loads('{')\n")
    with pytest.raises(OwnCodeError) as caught:
        guarded(code, "found()", code.load())
    assert str(caught.value) == (
        f"{code}: found() fails: {code.file}, line 3: JSONDecodeError: Expecting property name "
        "enclosed in double quotes: line 1 column 2 (char 1): return json.loads('{')"
    )


def test_signals_are_not_caught(read):
    code = read("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        code.load()


@pytest.mark.parametrize(
    "line, text, number",
    [
        ("r1 = mul s0 K[a]", "r1 = mul s0 K[a]", 2),
        ("  r1 =  mul s0 K[a]  # why", "r1 = mul s0 K[a]", 2),
        ("r1 = mul {g} K[{a}] -> o1 # {x}", "r1 = mul s0 K[b1] -> o1", 2),
        ("r1 = mul s0 s1", "r1 = mul s0", None),
        ("{text}", "r1 = mul s0", None),
        ("r1\nr1", "r1", None),
    ],
)
def test_lines_of_texts(read, line, text, number):
    assert read(f"# first\n{line}\n").line_of(text) == number


def test_methods_are_called_once(read):
    """So that machine, golden and float32 have the same numbers, whatever the file does."""
    code = read(
        "from diastole_sim.program.recipe import Sgd\n"
        "import itertools\nNUMBERS = itertools.count()\n"
        "class found(Sgd):\n"
        "    def of_step(self, step):\n        return {'-lr_t': next(NUMBERS)}\n"
    )
    optimiser = own_optimizer(code).make(rate=lambda step: 1.0)
    first = [optimiser.of_step(step) for step in range(3)]
    assert [optimiser.of_step(step) for step in range(3)] == first
    assert optimiser.chain(Options()) is optimiser.chain(Options())
    assert optimiser.constants() is optimiser.constants()


def test_a_recipe_without_a_machine(lion):
    """As comparisons train it in float32; another file is another recipe."""
    options = ProgramOptions(limits=make_limits(make_numerics()), optimizer=lion)
    assert isinstance(options.in_float32, RecipeOptions)
    assert options.in_float32.optimizer == lion
    other = replace(lion, sha256="0" * 64)
    assert repr(replace(options, optimizer=other).in_float32) != repr(options.in_float32)
    assert lion.source not in repr(options)


@pytest.mark.parametrize("default", ["None", "'text'", "field(default_factory=lambda: (0.5, 0.5))"])
def test_defaults_that_a_result_cannot_say(read, default):
    """Are left to the class."""
    code = read(
        "from dataclasses import dataclass, field\n"
        "from diastole_sim.program.recipe import Adam\n"
        f"@dataclass(kw_only=True)\nclass Own:\n    rate: object\n    betas: object = {default}\n"
        "    weight_decay: float = 0.25\n    momentum: float = 0.5\n",
        "Own",
    )
    choice = own_optimizer(code)
    assert choice.takes == ("momentum", "betas", "weight_decay")
    assert choice.defaults == {"rate": 0.01, "weight_decay": 0.25, "momentum": 0.5}


def test_an_instance_is_no_class(read):
    code = read("from diastole_sim.program.recipe import Sgd\nfound = Sgd(rate=float)\n")
    said = f"{code}: must be a class of optimisers with a parameter rate, the learning rate by step"
    with pytest.raises(OwnCodeError, match=exactly(f"{said}, not a Sgd")):
        own_optimizer(code)


def test_activations_as_they_may_be(read):
    """An object, a function, a class; with parameters that have defaults."""
    text = (
        "from functools import partial\n"
        "from diastole_sim.program.chains.activations import leaky_relu\n"
        "def made(slope=0.25): return leaky_relu(slope)\n"
        "found = leaky_relu(0.5)\nother = partial(leaky_relu, 0.125)\n"
    )
    slopes = {"made": 0.25, "found": 0.5, "other": 0.125, "leaky_relu": 0.01}
    for name, slope in slopes.items():
        assert own_activation(read(text, name)).constants == {"slope": slope}


@pytest.mark.parametrize("turns, accepted", [("turn lanes 5", True), ("turn lanes 6", False)])
def test_a_program_for_some_blocks(read, turns, accepted):
    """What a block of 32 has is no mistake; the machine's own is looked at when it is known."""
    code = read(
        "from diastole_sim.program.chains.activations import Activation\n"
        f"found = Activation(name='own', forward='''\nr1 = add r0 r0 {turns} -> o1\n"
        "mov r0 -> o0\n''')\n"
    )
    if accepted:
        assert own_activation(code).name == "own"
        return
    said = (
        f"{code}: forward: {code.file}, line 3: turn lanes must be at most log2 B = 3, not 6: "
        "r1 = add"
    )
    with pytest.raises(OwnCodeError, match=exactly(f"{said} r0 r0 {turns} -> o1")):
        own_activation(code)


@pytest.mark.parametrize(
    "text, holds",
    [
        ("r2 = mul r1 r1 -> o0", True),
        ("r2 = mul r1 r1\nmov r2 -> o0", True),
        ("r2 = mul r1 r1 -> o0\nr3 = mov r2 -> o1", True),
        ("r2 = mul r1 r1 -> o0 # kept\nr2 = mov r1", False),
        ("r2 = mul r1 r1\nr3 = mov r1 -> o0", False),
        ("r2 = mul r1 r1", False),
        ("r2 = mul r1 r1 -> o1", False),
        ("mov -r2 -> o0", False),
        ("", False),
    ],
)
def test_a_register_holds_what_is_written(text, holds):
    assert register_holds_output(text, "r2", "o0") == holds


@pytest.mark.parametrize(
    "body",
    [
        "    @property\n    def constants(self): return self.__dict__['decay']\n",
        "    def __getattr__(self, name): return getattr(self.inner, name)\n",
        "    of_step = property(lambda self: 1 // 0)\n",
        "    def constants(self): raise GeneratorExit('enough')\n",
        "    def constants(self): raise type('Own', (BaseException,), {})('enough')\n",
        "    def constants(self): return Numbers(a=1)\n",
    ],
)
def test_whatever_fails_in_an_optimiser_has_a_line(read, body):
    """Attributes that fail where they are looked up, what is no Exception, and mappings that fail
    where they are read."""
    code = read(
        "class Numbers(dict):\n    def items(self): raise RuntimeError('enough')\n"
        "class Base:\n"
        "    def __init__(self, rate): pass\n"
        "class found(Base):\n"
        f"{body}"
        + "".join(
            f"    def {name}(self, *given): return {{}}\n"
            for name in ("chain", "constants", "of_step")
            if name not in body and "getattr" not in body
        )
    )
    choice = own_optimizer(code)

    def use():
        made = choice.make(rate=lambda step: 1.0)
        made.constants()
        made.of_step(0)

    with pytest.raises(OwnCodeError, match=r"own\.py, line \d+: "):
        use()


def test_a_text_is_shown_as_one(read):
    code = read(
        "from diastole_sim.program.recipe import Sgd\n"
        "class found(Sgd):\n    def constants(self): return {'a': '1'}\n"
    )
    text = "constants(): a must be a finite number in the range of float32, not '1'"
    with pytest.raises(OwnCodeError) as caught:
        own_optimizer(code).make(rate=lambda step: 1.0).constants()
    assert str(caught.value).endswith(text)
