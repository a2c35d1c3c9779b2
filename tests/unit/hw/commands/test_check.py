"""`check`: every mistake at once; and every command checks its file."""

import pytest

from command_line import error


def test_check_a_good_file(diastole):
    result = diastole("check", "nano.toml", "--set", "array.rows=3")
    assert (result.code, result.err) == (0, [])
    assert result.out == (
        "nano.toml: good: diastole_nano, 3 x 2 cells with blocks of 8 x 8, 384 multipliers, "
        "accumulators of 44 bits\n"
    )


def test_check_says_everything_at_once(diastole, tmp_path):
    (tmp_path / "bad.toml").write_text("[array]\nrows = 65\nrow = 1\n[bus]\ndata_width = 65")
    result = diastole("check", "bad.toml", "--set", "array.cols=x", "--set", "rounding.bits=0")
    assert (result.code, result.out) == (2, "")
    assert sorted(result.err) == [
        'diastole: error: --set: array.cols must be an integer in 1..64, not "x"',
        "diastole: error: --set: rounding.bits must be an integer in 1..16, not 0",
        "diastole: error: bad.toml: array.row is an unknown key; the nearest is array.rows",
        "diastole: error: bad.toml: array.rows must be an integer in 1..64, not 65",
        "diastole: error: bad.toml: bus.data_width must be one of 32, 64, 128, 256, 512, not 65",
    ]


def test_check_without_a_file(diastole):
    result = diastole("check", "no.toml")
    assert (result.code, result.err) == (2, error("no.toml: No such file or directory"))


@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["generate", "-o", "product"],
        ["run", "--op", "forward", "--in", "a.npz", "--out", "b.npz"],
        ["train", "--task", "digits"],
    ],
)
def test_every_command_checks_the_file_and_the_overrides(diastole, tmp_path, npz, command):
    name, *rest = command
    result = diastole(name, "nano.toml", *rest, "--set", "array.rows=0")
    assert (result.code, result.out) == (2, "")
    assert result.err == error("--set: array.rows must be an integer in 1..64, not 0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "nano.toml"]
