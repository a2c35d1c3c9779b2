"""Reading the file: everything wrong at once, each in one line; and writing one to start from."""

import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diastole.config.file import (
    FIELDS,
    SECTIONS,
    absent_value,
    accepted,
    from_document,
    likely_format,
    load_config,
    nearest,
    to_toml,
    value_mistake,
    value_text,
)
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole_sim.spec.formats import FORMAT_NAMES
from support.sweep import sweep

WIDTHS = "a list of some of 2, 4, 6, 8, ascending"
FORMATS = f"{', '.join(FORMAT_NAMES)}, fast, e<E>m<M> (E in 2..5, M in 1..5, 1 + E + M at most 8)"
GROUPS = (
    'squares such as "8x8", vectors such as "1x16", or "tensor"; '
    "sides are powers of two, at most 128"
)
SCALE_OF_X = "scale.x must be one of floor, even, ceil, rceil where format.x is"
SCALE_OF_W = "scale.w must be one of nearest, up, four-over-six where format.w is"
SCALES = "one of floor, even, ceil, rceil, or for nvfp4 one of nearest, up, four-over-six"
MANTISSAS = (
    "an integer in 2..23, or e<E>m<M> with such an M and E in 6..8 (fewer bits of exponent do not "
    "hold every sum, more are not used)"
)
WINDOWS = "0 or an integer in 8..48"
NAME = "[a-z][a-z0-9_]* of at most 64 characters, and no Verilog or SystemVerilog keyword"
ROUNDINGS = "nearest, stochastic-a, stochastic-b, stochastic-c"


def problems(text, *overrides):
    with pytest.raises(BadInput) as caught:
        from_document(tomllib.loads(text), overrides, source="f.toml")
    return list(caught.value.problems)


@pytest.mark.parametrize("preset", PRODUCTS_ONLY)
def test_what_init_writes_reads_back(preset):
    assert from_document(tomllib.loads(to_toml(PRODUCTS_ONLY[preset]))) == PRODUCTS_ONLY[preset]


@pytest.mark.parametrize("x, w, dy", [("bf16", "mxint8", "e3m2"), ("nvfp4",) * 3])
def test_what_is_left_out_reads_back_as_left_out(x, w, dy):
    config = from_document({"format": {"x": x, "w": w, "dy": dy}})
    text = to_toml(config)
    assert from_document(tomllib.loads(text)) == config
    told = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    explicit = from_document(told)
    assert explicit.numerics.to_dict() | {"window": None} == config.numerics.to_dict()
    assert explicit.numerics.block_sum_bits == config.numerics.block_sum_bits
    assert None not in explicit.block.model_dump().values()
    assert explicit.cell.window is not None


def test_what_init_writes_of_a_fixed_scale():
    config = from_document({"format": {"x": "bf16"}})
    lines = to_toml(config).splitlines()
    place = lines.index("# Rule of activations.")
    assert lines[place + 1 : place + 4] == [
        f"# Accepted: {SCALES}.",
        "# Left out: the format has its own and takes no other.",
        "# Rule of weights.",
    ]


@pytest.mark.parametrize(
    "formats, window",
    [
        (("bfp8", "bfp8", "bfp8"), 0),
        (("mxfp6_e3m2",) * 3, 0),
        (("mxfp8_e4m3",) * 3, 16),
        (("bfp8", "fp8_e5m2", "fp8_e5m2"), 24),
    ],
)
def test_window_of_the_formats(formats, window):
    config = from_document({"format": dict(zip(("x", "w", "dy"), formats, strict=True))})
    assert absent_value("cell.window", config.numerics) == window


def test_what_init_writes_explains_every_key():
    lines = to_toml(PRODUCTS_ONLY["nano"]).splitlines()
    unwrapped = " ".join(line.removeprefix("# ") for line in lines)
    for key, field in FIELDS.items():
        assert f"# {field.description}." in lines
        name = key.rpartition(".")[2]
        words = f"{field.description}. Accepted: "
        assert f"{words}{accepted(key)}." in unwrapped or (
            f"{words}as for x." in unwrapped and accepted(key) == accepted(f"{key[: -len(name)]}x")
        )
        assert any(re.match(rf"(# )?{name} = ", line) for line in lines)
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
        ('format.x = "bfp0"', f'format.x must be one of {FORMATS}, not "bfp0"'),
        ('format.x = "e5m3"', f'format.x must be one of {FORMATS}, not "e5m3"'),
        (
            'format.x = "e4m3 "',
            f'format.x must be one of {FORMATS}, not "e4m3 "; did you mean e4m3?',
        ),
        ('format.w = "bfp9"', f'format.w must be one of {FORMATS}, not "bfp9"'),
        (
            'format.w = "mxfp4"',
            f'format.w must be one of {FORMATS}, not "mxfp4"; did you mean mxfp4_e2m1?',
        ),
        ("format.dy = 4", f"format.dy must be one of {FORMATS}, not 4"),
        ('block.x = "8"', f'block.x must be {GROUPS}, not "8"'),
        ('block.x = "12x12"', f'block.x must be {GROUPS}, not "12x12"'),
        ('block.w = "8x1"', f'block.w must be {GROUPS}, not "8x1"'),
        ('block.w = "1x256"', f'block.w must be {GROUPS}, not "1x256"'),
        ("block.dy = 8", f"block.dy must be {GROUPS}, not 8"),
        ("block.dy = [8, 8]", f"block.dy must be {GROUPS}, not [8, 8]"),
        ('scale.x = "down"', f'scale.x must be {SCALES}, not "down"'),
        ("scale.w = true", f"scale.w must be {SCALES}, not true"),
        ('scale.source = "max"', 'scale.source must be one of current, delayed, host, not "max"'),
        ('overflow.x = "wrap"', 'overflow.x must be one of saturate, specification, not "wrap"'),
        ("overflow.dy = 0", "overflow.dy must be one of saturate, specification, not 0"),
        ('special = "nan"', 'special must be one of flag, poison, not "nan"'),
        ("cell.window = 7", f"cell.window must be {WINDOWS}, not 7"),
        ("cell.window = 49", f"cell.window must be {WINDOWS}, not 49"),
        ("cell.window = -8", f"cell.window must be {WINDOWS}, not -8"),
        ("cell.window = false", f"cell.window must be {WINDOWS}, not false"),
        ("cell.window = 16.0", f"cell.window must be {WINDOWS}, not 16.0"),
        ('cell.window = "exact"', f'cell.window must be {WINDOWS}, not "exact"'),
        ("block = 8", "block must be a table, [block], not 8"),
        ('rounding.x = "up"', f'rounding.x must be one of {ROUNDINGS}, not "up"'),
        ('rounding.w = ""', f'rounding.w must be one of {ROUNDINGS}, not ""'),
        ("rounding.dy = 1979-05-27", f'rounding.dy must be one of {ROUNDINGS}, not "1979-05-27"'),
        ("rounding.bits = 25", "rounding.bits must be an integer in 1..24, not 25"),
        (
            "rounding.bits = 17",
            "rounding.bits must be an integer in 1..16 where rounding.kind is counter, not 17",
        ),
        (
            'rounding.kind = "lsfr"',
            (
                'rounding.kind must be one of counter, lfsr, lfsr3, data, not "lsfr"; '
                "did you mean lfsr?"
            ),
        ),
        ("rounding.lfsr_bits = 2", "rounding.lfsr_bits must be an integer in 3..24, not 2"),
        ("accumulator.fraction = 33", "accumulator.fraction must be an integer in 0..32, not 33"),
        ("accumulator.headroom = 0", "accumulator.headroom must be an integer in 1..16, not 0"),
        *(
            (
                f"accumulator.mantissa = {value}",
                f"accumulator.mantissa must be {MANTISSAS}, not {value}",
            )
            for value in ("1", "24", '"e5m10"', '"e6m24"', '"half"', "9.0", "true")
        ),
        ("accumulator.chunk = 4", "accumulator.chunk must be an integer in 8..512, not 4"),
        (
            'accumulator.kind = "fp"',
            'accumulator.kind must be one of integer, float, not "fp"',
        ),
        (
            "bus.data_width = 96",
            "bus.data_width must be one of 32, 64, 128, 256, 512, not 96",
        ),
        ("bus.ports = 3", "bus.ports must be one of 1, 2, not 3"),
        ("bus.ports = true", "bus.ports must be one of 1, 2, not true"),
        ("array = 3", "array must be a table, [array], not 3"),
        ("rows = 3", "rows is an unknown key; the nearest is array.rows"),
        ("array.row = 3", "array.row is an unknown key; the nearest is array.rows"),
        ("array.colums = 3", "array.colums is an unknown key; the nearest is array.cols"),
        ("bus.data = 3", "bus.data is an unknown key; the nearest is bus.data_width"),
        ("fast.widths = 4", f"fast.widths must be {WIDTHS}, not 4"),
        ("fast.widths = [4, 2]", f"fast.widths must be {WIDTHS}, not [4, 2]"),
        ("fast.widths = [2, true]", f"fast.widths must be {WIDTHS}, not [2, true]"),
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
        '--set must be KEY=VALUE, not "nonsense"',
        "--set: accumulator.fraction must be an integer in 0..32, not 2.5",
        "--set: array.cols must be an integer in 1..64, not 99",
        "f.toml: array.block must be one of 1, 2, 4, 8, 16, 32, not 7",
        "f.toml: array.rows must be an integer in 1..64, not 0",
        "f.toml: bits is an unknown key; the nearest is rounding.bits",
        "f.toml: bus.width is an unknown key; the nearest is bus.data_width",
        f'f.toml: format.x must be one of {FORMATS}, not "fp8"; did you mean fp8_e4m3 or fp8_e5m2?',
        f'f.toml: name must be {NAME}, not "module"',
    ]


CONTRADICTION = (
    "f.toml: accumulator.fraction (F) and accumulator.headroom (G) must make SW + F + G "
    "at most 63 bits, not 22 + 32 + 10 = 64; SW follows from the formats, cell.window and "
    "array.block: choose F + G of at most 41"
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


EDGE = "where array.transpose is edge (in_place takes vectors)"
TWO_LEVEL = (
    "format.x, format.w and format.dy must all be nvfp4, or none of them: the scales of "
    "nvfp4 are not powers of two (nvfp4 is chosen for {})"
)


@pytest.mark.parametrize(
    "text, messages",
    [
        (
            'block.x = "tensor"',
            [('block.x must be squares such as "8x8" or vectors such as "1x8" where format.x is '
             'bfp4, not "tensor"')],
        ),
        (
            'format.w = "mxfp4_e2m1"\nblock.w = "tensor"',
            [('block.w must be squares such as "32x32" or vectors such as "1x32" where format.w is '
             'mxfp4_e2m1, not "tensor"')],
        ),
        (
            'format.dy = "bf16"\nblock.dy = "8x8"',
            ['block.dy must be "tensor" where format.dy is bf16, not "8x8"'],
        ),
        (
            'block.x = "4x4"\nblock.w = "1x4"',
            ['block.x must be a multiple of array.block = 8 (such as "8x8"), not "4x4"',
             'block.w must be a multiple of array.block = 8 (such as "1x8"), not "1x4"'],
        ),
        (
            'scale.x = "up"',
            [f'{SCALE_OF_X} bfp4, not "up"'],
        ),
        (
            'format.x = "mxfp4_e2m1"\nscale.x = "four-over-six"',
            [f'{SCALE_OF_X} mxfp4_e2m1, not "four-over-six"'],
        ),
        (
            'format = {x = "nvfp4", w = "nvfp4", dy = "nvfp4"}\nscale.w = "floor"',
            [f'{SCALE_OF_W} nvfp4, not "floor"'],
        ),
        (
            'format.w = "bf16"\nscale.w = "floor"',
            ['scale.w must be left out where format.w is bf16, not "floor"'],
        ),
        ('format.w = "nvfp4"', [TWO_LEVEL.format("w")]),
        ('format = {x = "nvfp4", dy = "nvfp4"}', [TWO_LEVEL.format("x and dy")]),
        (
            'array.transpose = "edge"\nblock.w = "1x8"\nblock.dy = "1x16"\nblock.x = "1x8"',
            [f'block.w must be squares such as "8x8" {EDGE}, not "1x8"',
             f'block.dy must be squares such as "8x8" {EDGE}, not "1x16"'],
        ),
        (
            'array.transpose = "edge"\nformat.dy = "mxint8"\nformat.w = "e3m2"\nblock.w = "1x8"',
            [f'block.w must be "tensor" or squares such as "8x8" {EDGE}, not "1x8"',
             f'block.dy must be squares such as "32x32" {EDGE}, not "1x32", the default of mxint8'],
        ),
        (
            'format = {x = "bfp8", w = "bfp8"}\ncell.window = 15',
            [("cell.window must be 0 or at least 16, the bits of a product of two significands, "
             "not 15")],
        ),
        (
            'format = {x = "fp8_e5m2", w = "fp8_e5m2"}\ncell.window = 0',
            [("accumulator.fraction (F) and accumulator.headroom (G) must make SW + F + G "
                "at most 63 bits, not 68 + 18 + 14 = 100; SW follows from the formats, "
                "cell.window and array.block: no F and G are small enough; choose a "
                "cell.window of 16 or 24")],
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together(text, messages):
    assert problems(text) == [f"f.toml: {message}" for message in messages]


@pytest.mark.parametrize(
    "text",
    [
        'block = {x = "1x8", w = "1x16", dy = "128x128"}',
        'array.transpose = "edge"\nblock = {x = "1x8", w = "16x16"}',
        'array.transpose = "edge"\nformat = {w = "fp8_e4m3", dy = "bf16"}',
        'format = {x = "nvfp4", w = "nvfp4", dy = "nvfp4"}\nscale = {x = "up", w = "nearest"}',
        'format = {x = "fp8_e4m3", w = "mxint8", dy = "bf16"}\nscale.x = "floor"',
        'array.block = 1\nblock.x = "1x1"',
        "cell.window = 8",
        "format.x = 'e5m2'\ncell.window = 48\naccumulator = {fraction = 0, headroom = 9}",
    ],
)
def test_what_goes_together(text):
    assert isinstance(from_document(tomllib.loads(text)), Config)


@pytest.mark.parametrize(
    "text, key",
    [
        ('format.x = "no"\nblock.x = "tensor"', "format.x"),
        ('format.x = "no"\nscale.x = "up"', "format.x"),
        ("format = 3\nblock = {x = 'tensor', w = '1x8'}\narray.transpose = 'edge'", "format"),
        ('array.block = 3\nblock.x = "2x2"', "array.block"),
        ('array = 3\nblock.x = "2x2"', "array"),
        (wide("bfp8", "bfp8", "bfp8", 16).replace("block = 32", "block = 64"), "array.block"),
        ('format.x = "no"\nformat.w = "bfp8"\ncell.window = 11', "format.x"),
        ('array.transpose = "no"\nblock.w = "1x8"', "array.transpose"),
        ('format.x = "nvfp4"\nformat.w = "no"', "format.w"),
        ('cell.window = 1\nformat = {x = "fp8_e5m2", w = "e5m2"}', "cell.window"),
        ('block.w = "8"\nformat.w = "mxint8"\narray.transpose = "edge"', "block.w"),
    ],
)
def test_nothing_follows_from_a_key_that_is_wrong_itself(text, key):
    (problem,) = problems(text)
    assert problem.startswith(f"f.toml: {key} must be ")


def test_a_key_is_blamed_once():
    text = 'format.w = "mxint8"\nblock.w = "tensor"\narray.transpose = "edge"'
    assert problems(text) == [
        (
            'f.toml: block.w must be squares such as "32x32" or vectors such as "1x32" where '
            'format.w is mxint8, not "tensor"'
        )
    ]


@pytest.mark.parametrize(
    "overrides, place",
    [
        (["format.x=fast"], "--set: format.w must be fast or bfp2 where format.x is fast"),
        (["accumulator.fraction=32", "format.x=bfp8"], "--set: accumulator.fraction (F) and"),
        (['format={x="no"}'], "--set: format.x must be one of"),
        (
            ["numbers=hfp8", "array.block=16", "accumulator.chunk=8"],
            "--set: accumulator.chunk must",
        ),
        (["array.rows=4"], "f.toml: block.dy must be squares"),
    ],
)
def test_mistakes_from_set_begin_with_set(overrides, place):
    text = 'accumulator.headroom = 16\n[format]\nw = "bfp8"\n'
    if place.startswith("f.toml"):
        text += '[block]\ndy = "tensor"\n'
    assert problems(text, *overrides)[0].startswith(place)


def test_a_name_has_at_most_64_characters():
    assert from_document({"name": "a" * 64}).name == "a" * 64
    (problem,) = problems("", f"name={'a' * 5000}")
    assert problem == f'--set: name must be {NAME}, not "{"a" * 56}...'


@pytest.mark.parametrize(
    "key, text, mistake",
    [
        ("format", "bfp4", None),
        ("format.x", "fast", None),
        ("array.rows", "3", None),
        ("format", "bfp9", f'format must be one of {FORMATS}, not "bfp9"'),
        ("block.w", "3", f"block.w must be {GROUPS}, not 3"),
        ("format.z", "bfp4", "format.z is an unknown key; the nearest is format.x"),
        ("array", "3", "array is a table: set keys of the table, such as array.rows"),
        ("array..rows", "3", '--set must be KEY=VALUE, not "array..rows=3"'),
    ],
)
def test_mistakes_of_a_value_alone(key, text, mistake):
    assert value_mistake(key, text) == mistake


def test_texts_in_other_alphabets_stay_readable():
    assert value_text("bfpé\x7f") == '"bfpé\\u007f"'
    assert tomllib.loads(f"x = {value_text('é')}") == {"x": "é"}


def test_overrides():
    document = tomllib.loads("array = {rows = 3}")
    overrides = ["array.rows=4", 'format.x="bfp3"', "format.w=bfp5", " array.cols = 5 ", "name=abc"]
    config = from_document(document, overrides)
    assert (config.array.rows, config.array.cols, config.name) == (4, 5, "abc")
    assert (config.format.x, config.format.w) == ("bfp3", "bfp5")
    assert document == {"array": {"rows": 3}}, "the document was changed"


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


@pytest.mark.parametrize("examples", [30, sweep(100)])
def test_any_override_is_taken_or_refused(examples):
    drawn = given(st.text(), st.text())(any_override_is_taken_or_refused)
    settings(max_examples=examples)(drawn)()


def any_override_is_taken_or_refused(key, value):
    problems = ()
    try:
        from_document({}, [f"{key}={value}"])
    except BadInput as error:
        problems = error.problems
    assert all("\n" not in problem for problem in problems)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["tensor", "1x8", "16x16", "4x4", "nvfp4", "bf16", "e5m2", "up", "edge"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
TABLES = st.dictionaries(st.sampled_from(["x", "w", "dy", "block", "transpose", "window"]), VALUES)


@pytest.mark.parametrize("examples", [30, sweep(100)])
def test_any_document_is_taken_or_refused(examples):
    tables = st.dictionaries(st.sampled_from([*SECTIONS, "special", "name"]), TABLES | VALUES)
    settings(max_examples=examples)(given(tables)(any_document_is_taken_or_refused))()


def any_document_is_taken_or_refused(document):
    problems = ()
    try:
        from_document(document).numerics.to_dict()
    except BadInput as error:
        problems = error.problems
    assert all("\n" not in problem for problem in problems)


def test_a_file_that_is_no_configuration_by_its_size(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"#" * (1 << 20))
    assert load_config(path) == Config()
    path.write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(BadInput) as caught:
        load_config(path)
    assert caught.value.problems == (
        f"{path}: is not a configuration: the file has more than 1048576 bytes",
    )


@pytest.mark.parametrize(
    "given, meant",
    [
        ("mxfp8", "mxfp8_e4m3 or mxfp8_e5m2"),
        ("fp8", "fp8_e4m3 or fp8_e5m2"),
        ("FP8_E4M3", "fp8_e4m3"),
        ("nvpf4", "nvfp4"),
        ("fp8-e4m3", "fp8_e4m3"),
        ("fp8_e4m2", None),  # or fp8_e5m2
        ("b", None),
        ("bfp16", None),
        ("bfp0", None),
        ("", None),
        ("int7", None),
        (["bfp4"], None),
    ],
)
def test_what_was_meant(given, meant):
    assert likely_format(given) == (f"; did you mean {meant}?" if meant else "")
