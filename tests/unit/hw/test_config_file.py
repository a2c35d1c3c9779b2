"""Reading the file: everything wrong at once, each in one line; and writing one to start from."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diastole.config import Config
from diastole.config_file import FIELDS, accepted, from_document, nearest, read, to_toml
from diastole.errors import BadInput
from diastole.presets import PRESETS

FORMATS = "bfp2, bfp3, bfp4, bfp5, bfp6, bfp7, bfp8"
NAME = "[a-z][a-z0-9_]* and no Verilog or SystemVerilog keyword"
ROUNDINGS = "nearest, stochastic-a, stochastic-b, stochastic-c"


def problems(text, *overrides):
    with pytest.raises(BadInput) as caught:
        from_document(tomllib.loads(text), overrides, source="f.toml")
    return list(caught.value.problems)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_init_writes_reads_back(preset):
    assert from_document(tomllib.loads(to_toml(PRESETS[preset]))) == PRESETS[preset]


def test_what_init_writes_explains_every_key():
    text = to_toml(PRESETS["nano"])
    lines = text.splitlines()
    for key, field in FIELDS.items():
        assert f"# {field.description}." in lines
        assert f"# Accepted: {accepted(key)}." in lines
    assert max(map(len, lines)) <= 100


def test_an_empty_file_has_the_defaults():
    assert from_document({}) == Config()


@pytest.mark.parametrize(
    "line, message",
    [
        ("name = 3", f"name must be {NAME}, not 3"),
        ('name = "Nano"', f'name must be {NAME}, not "Nano"'),
        ('name = "nano\\n"', f'name must be {NAME}, not "nano\\n"'),
        ('name = "edge"', f'name must be {NAME}, not "edge"'),
        ('name = "uwire"', f'name must be {NAME}, not "uwire"'),
        ("array.rows = 0", "array.rows must be an integer in 1..64, not 0"),
        ("array.rows = 65", "array.rows must be an integer in 1..64, not 65"),
        ("array.rows = 2.0", "array.rows must be an integer in 1..64, not 2.0"),
        ("array.rows = true", "array.rows must be an integer in 1..64, not true"),
        ('array.rows = "2"', 'array.rows must be an integer in 1..64, not "2"'),
        ("array.cols = -1", "array.cols must be an integer in 1..64, not -1"),
        ("array.cols = inf", "array.cols must be an integer in 1..64, not inf"),
        ("array.cols = [1]", "array.cols must be an integer in 1..64, not [1]"),
        ("array.block = 3", "array.block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ("array.block = 8.0", "array.block must be one of 1, 2, 4, 8, 16, 32, not 8.0"),
        ("array.block = true", "array.block must be one of 1, 2, 4, 8, 16, 32, not true"),
        ('array.transpose = "no"', 'array.transpose must be one of in_place, edge, not "no"'),
        ('format.x = "bfp1"', f'format.x must be one of {FORMATS}, not "bfp1"'),
        ('format.w = "bfp9"', f'format.w must be one of {FORMATS}, not "bfp9"'),
        ("format.dy = 4", f"format.dy must be one of {FORMATS}, not 4"),
        ('rounding.x = "up"', f'rounding.x must be one of {ROUNDINGS}, not "up"'),
        ('rounding.w = ""', f'rounding.w must be one of {ROUNDINGS}, not ""'),
        ("rounding.dy = 1979-05-27", f'rounding.dy must be one of {ROUNDINGS}, not "1979-05-27"'),
        ("rounding.bits = 17", "rounding.bits must be an integer in 1..16, not 17"),
        ("accumulator.fraction = 33", "accumulator.fraction must be an integer in 0..32, not 33"),
        ("accumulator.headroom = 0", "accumulator.headroom must be an integer in 1..16, not 0"),
        (
            "bus.data_width = 96",
            "bus.data_width must be one of 32, 64, 128, 256, 512, not 96",
        ),
        ("array = 3", "array must be a table, [array], not 3"),
        ("rows = 3", "rows is an unknown key; the nearest is array.rows"),
        ("array.row = 3", "array.row is an unknown key; the nearest is array.rows"),
        ("array.colums = 3", "array.colums is an unknown key; the nearest is array.cols"),
        ("bus.widths = 3", "bus.widths is an unknown key; the nearest is bus.data_width"),
        ("fraction = 3", "fraction is an unknown key; the nearest is accumulator.fraction"),
        ("arrays.rows = 3", "arrays is an unknown key; the nearest is array"),
        ('"na\\nme" = 3', '"na\\nme" is an unknown key; the nearest is name'),
    ],
)
def test_one_mistake(line, message):
    assert problems(line) == [f"f.toml: {message}"]


def test_long_values_are_cut():
    assert problems(f'array.rows = "{"a" * 100}"') == [
        f'f.toml: array.rows must be an integer in 1..64, not "{"a" * 56}...'
    ]


def test_a_huge_integer():
    assert problems("array.rows = 0x" + "f" * 5000) == [
        "f.toml: array.rows must be an integer in 1..64, not a huge integer"
    ]


def test_all_mistakes_at_once():
    text = """
        name = "module"
        bits = 3
        [array]
        rows = 0
        block = 7
        [format]
        x = "fp8"
        [bus]
        width = 64
    """
    assert sorted(problems(text, "array.cols=99", "nonsense", "accumulator.fraction=2.5")) == [
        "--set: accumulator.fraction must be an integer in 0..32, not 2.5",
        "--set: array.cols must be an integer in 1..64, not 99",
        '--set: must be KEY=VALUE, not "nonsense"',
        "f.toml: array.block must be one of 1, 2, 4, 8, 16, 32, not 7",
        "f.toml: array.rows must be an integer in 1..64, not 0",
        "f.toml: bits is an unknown key; the nearest is rounding.bits",
        "f.toml: bus.width is an unknown key; the nearest is bus.data_width",
        f'f.toml: format.x must be one of {FORMATS}, not "fp8"',
        f'f.toml: name must be {NAME}, not "module"',
    ]


CONTRADICTION = (
    "f.toml: accumulator.fraction and accumulator.headroom must make SW + F + G at most 63 bits, "
    "not 22 + 32 + 10 = 64 (SW follows from the formats and array.block)"
)


def wide(x, w, dy, headroom):
    return f"""
        format = {{x = "{x}", w = "{w}", dy = "{dy}"}}
        array.block = 32
        accumulator = {{fraction = 32, headroom = {headroom}}}
    """


@pytest.mark.parametrize("narrow", ["x", "w", "dy"])
def test_accumulator_too_wide_for_any_product(narrow):
    formats = dict.fromkeys(("x", "w", "dy"), "bfp8") | {narrow: "bfp2"}
    assert problems(wide(**formats, headroom=10)) == [CONTRADICTION]
    config = from_document(tomllib.loads(wide(**formats, headroom=9)))
    assert config.numerics.accumulator_bits == 63


def test_contradiction_beside_other_mistakes():
    text = wide("bfp8", "bfp8", "bfp8", 10)
    assert problems(text, "array.rows=0") == [
        "--set: array.rows must be an integer in 1..64, not 0",
        CONTRADICTION,
    ]


def test_no_contradiction_from_a_key_that_is_wrong_itself():
    text = wide("bfp8", "bfp8", "bfp8", 17)
    assert problems(text) == ["f.toml: accumulator.headroom must be an integer in 1..16, not 17"]


def test_overrides():
    document = tomllib.loads("array = {rows = 3}")
    overrides = ["array.rows=4", 'format.x="bfp3"', "format.w=bfp5", " array.cols = 5 ", "name=abc"]
    config = from_document(document, overrides)
    assert (config.array.rows, config.array.cols, config.name) == (4, 5, "abc")
    assert (config.format.x, config.format.w) == ("bfp3", "bfp5")
    assert document == {"array": {"rows": 3}}, "the document was changed"


def test_the_last_override_counts():
    assert from_document({}, ["array.rows=4", "array.rows=5"]).array.rows == 5


@pytest.mark.parametrize(
    "override, message",
    [
        ("rows", '--set: must be KEY=VALUE, not "rows"'),
        ("=3", '--set: must be KEY=VALUE, not "=3"'),
        ("array..rows=3", '--set: must be KEY=VALUE, not "array..rows=3"'),
        ("array.rows=x", '--set: array.rows must be an integer in 1..64, not "x"'),
        ("array.rows=", '--set: array.rows must be an integer in 1..64, not ""'),
        ("array.rows=1\nx=2", '--set: array.rows must be an integer in 1..64, not "1\\nx=2"'),
        ("array=3", "--set: array must be a table, [array], not 3"),
        ("array.row=3", "--set: array.row is an unknown key; the nearest is array.rows"),
        ("array.rows.x=3", "--set: array.rows.x is an unknown key; the nearest is array.rows"),
    ],
)
def test_bad_override(override, message):
    assert problems("array.rows = 2", override) == [message]


def test_override_of_a_section_that_the_file_spoils():
    message = "f.toml: array must be a table, [array], not 3"
    assert problems("array = 3", "array.rows=2") == [message]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"rows = = 3", "is not a TOML file: Invalid value (at line 1, column 8)"),
        (b"\xff", "is not a TOML file: it is not text in UTF-8"),
        (b"x = " + b"[" * 10000, "is not a TOML file: nested too deeply"),
    ],
)
def test_not_toml(tmp_path, content, message):
    path = tmp_path / "f.toml"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read(path)
    assert caught.value.problems == (f"{path}: {message}",)


def test_no_file(tmp_path):
    with pytest.raises(BadInput) as caught:
        read(tmp_path / "f.toml")
    assert caught.value.problems == (f"{tmp_path / 'f.toml'}: No such file or directory",)


@pytest.mark.parametrize(
    "key, known",
    [
        ("arry.rows", "array.rows"),
        ("transpose", "array.transpose"),
        ("array.blocks", "array.block"),
        ("Name", "name"),
        ("roundings", "rounding"),
        ("rounding.dx", "rounding.x"),
    ],
)
def test_nearest(key, known):
    assert nearest(key) == known


@given(st.text(), st.text())
def test_any_override_is_taken_or_refused(key, value):
    try:
        from_document({}, [f"{key}={value}"])
    except BadInput as error:
        assert all("\n" not in problem for problem in error.problems)
