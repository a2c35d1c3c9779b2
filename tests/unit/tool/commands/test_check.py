"""`check`: every mistake at once; and every command checks its file."""

import re

from diastole.config.presets import PRODUCTS_ONLY
from diastole.layers.layer_costs import usual_use


def test_check_a_good_file(diastole):
    result = diastole("check", "nano.toml", "--set", "array.rows=3")
    assert (result.code, result.err) == (0, [])
    assert result.out == (
        "nano.toml: good: diastole_nano, 3 x 2 cells with blocks of 8 x 8, 384 "
        "multipliers, accumulators of 44 bits\n  x: format bfp4, groups 8x8, scale floor, "
        "rounding nearest\n  w: format bfp4, groups 8x8, scale floor, rounding nearest\n"
        "  dy: format bfp4, groups 8x8, scale floor, rounding stochastic-b\n"
        "  products: exact in 8 bits\n  "
        f"{usual_use(shaped(3))}\nnext: diastole generate nano.toml --set=array.rows=3 -o "
        "product\n"
    )


def test_check_says_what_accumulates(diastole):
    result = diastole("check", "nano.toml", "--set", "numbers=ibm-fp8")
    assert (result.code, result.err) == (0, [])
    words = "256 multipliers, accumulators e6m9 of chunks of 64 elements"
    assert result.out.splitlines()[0].endswith(words)


def test_check_names_chunks_that_would_do(diastole):
    cells = ("--set", "array.rows=6", "--set", "array.cols=6")
    result = diastole("check", "nano.toml", "--set", "accumulator.kind=float", *cells)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err
    assert line.endswith("not 64: use 48, 96, 144, 192 and so on")


def shaped(rows):
    array = PRODUCTS_ONLY["nano"].array.model_copy(update={"rows": rows})
    return PRODUCTS_ONLY["nano"].model_copy(update={"array": array})


def test_check_says_what_starves(diastole):
    """A narrow bus before a large array."""
    wide, narrow = (
        diastole("check", "nano.toml", "--set", "array.rows=16", "--set", f"bus.data_width={bits}")
        for bits in (512, 32)
    )
    said = [result.out.splitlines()[-2] for result in (wide, narrow)]
    shares = [float(re.search(r"keeps ([\d.]+)%", line)[1]) for line in said]
    assert said[0].endswith("bound by multipliers")
    assert shares[0] > 95
    assert shares[1] < 25
    assert not said[1].endswith("bound by multipliers")


def test_check_says_what_the_formats_bring(diastole, tmp_path):
    (tmp_path / "mixed.toml").write_text("""
        format = {x = "mxfp8_e4m3", w = "bf16", dy = "fp8_e5m2"}
        block.dy = "16x16"
        scale.x = "even"
    """)
    result = diastole("check", "mixed.toml")
    assert (result.code, result.err) == (0, [])
    assert result.out.splitlines()[1:-2] == [
        "  x: format mxfp8_e4m3, groups 1x32, scale even, rounding nearest, stored in two copies",
        "  w: format bf16, groups tensor, scale fixed, rounding nearest",
        "  dy: format fp8_e5m2, groups 16x16, scale rceil, rounding stochastic-b",
        "  products: rounded to 24 bits",
    ]


def test_check_says_the_widest_product(diastole):
    sets = ("--set", "format.x=bfp2", "--set", "format.w=bfp8")
    result = diastole("check", "nano.toml", *sets)
    assert result.out.splitlines()[-3] == "  products: exact in 12 bits"


def test_check_says_contradictions_beside_mistakes(diastole, tmp_path):
    (tmp_path / "bad.toml").write_text("""
        special = "ignore"
        format = {x = "bf16", w = "mxint8", dy = "nvfp4"}
        array.transpose = "edge"
        scale.x = "floor"
        cell.window = 7
    """)
    result = diastole("check", "bad.toml")
    assert (result.code, result.out) == (2, "")
    assert [line.removeprefix("diastole: error: bad.toml: ") for line in result.err] == [
        'special must be one of flag, poison, not "ignore"',
        "cell.window must be 0 or an integer in 8..48, not 7",
        'scale.x must be left out where format.x is bf16, not "floor"',
        (
            'block.w must be squares such as "32x32" where array.transpose is edge (in_place takes '
            'vectors), not "1x32", the default of mxint8'
        ),
        (
            'block.dy must be squares such as "16x16" where array.transpose is edge (in_place '
            'takes vectors), not "1x16", the default of nvfp4'
        ),
        (
            "format.x, format.w and format.dy must all be nvfp4, or none of them: the "
            "scales of nvfp4 are not powers of two (nvfp4 is chosen for dy)"
        ),
    ]


def test_check_says_everything_at_once(diastole, tmp_path):
    (tmp_path / "bad.toml").write_text("[array]\nrows = 65\nrow = 1\n[bus]\ndata_width = 65")
    result = diastole("check", "bad.toml", "--set", "array.cols=x", "--set", "rounding.bits=0")
    assert (result.code, result.out) == (2, "")
    assert sorted(result.err) == [
        'diastole: error: --set: array.cols must be an integer in 1..64, not "x"',
        "diastole: error: --set: rounding.bits must be an integer in 1..24, not 0",
        "diastole: error: bad.toml: array.row is an unknown key; the nearest is array.rows",
        "diastole: error: bad.toml: array.rows must be an integer in 1..64, not 65",
        "diastole: error: bad.toml: bus.data_width must be one of 32, 64, 128, 256, 512, not 65",
    ]
