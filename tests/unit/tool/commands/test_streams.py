"""Standard streams that are closed, full, or of few characters: a line and a code, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.sweep import sweep

FULL = Path("/dev/full")


@pytest.fixture
def shell(tmp_path):
    """``shell("diastole check a.toml >&-")`` as (exit code, output, errors)."""
    from diastole.config.file import to_toml
    from diastole.config.presets import PRODUCTS_ONLY

    (tmp_path / "grün.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2), np.float32), W=np.ones((2, 2), np.float32))

    def run(command, **environment):
        command = command.replace("diastole", f"{sys.executable} -m diastole")
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, cwd=tmp_path, env=kept | environment
        )
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


CLOSED = "diastole: error: standard output is closed\n"
NO_SPACE = "diastole: error: standard output: No space left on device\n"


@pytest.mark.parametrize("command", ["formats --formats bfp4", "formats --json", "check grün.toml"])
@pytest.mark.sampled(3)
def test_a_closed_output(shell, command):
    assert shell(f"diastole {command} >&-") == (2, "", CLOSED)
    assert shell(f"diastole {command} <&- >&- 2>&-") == (2, "", "")


@pytest.mark.parametrize("command", ["formats --formats bfp4", "check grün.toml", "--help"])
@pytest.mark.sampled(3)
def test_a_full_disk(shell, command):
    if not FULL.exists():
        pytest.skip(f"no {FULL}")
    assert shell(f"diastole {command} >{FULL}") == (2, "", NO_SPACE)


@pytest.mark.parametrize("command", ["--help", "--version", "check --help"])
def test_a_full_disk_that_is_noticed_at_once(shell, command):
    """argparse ignores it; a container often has Python's output without a buffer."""
    if not FULL.exists():
        pytest.skip(f"no {FULL}")
    assert shell(f"diastole {command} >{FULL}", PYTHONUNBUFFERED="1") == (2, "", NO_SPACE)


def test_nobody_to_tell(shell):
    assert shell("diastole check no.toml 2>&-") == (2, "", "")
    if FULL.exists():
        assert shell(f"diastole check no.toml 2>{FULL}") == (2, "", "")


GONE = "diastole {} | (exec <&-; sleep 1); exit ${{PIPESTATUS[0]}}"


@pytest.mark.parametrize("unbuffered", ["1", sweep("")])
def test_a_reader_that_has_gone(shell, unbuffered):
    formats = GONE.format("formats --formats bfp4")
    assert shell(formats, PYTHONUNBUFFERED=unbuffered) == (0, "", "")


def test_a_check_without_a_reader(shell):
    """Its own result counts, not that nobody reads it."""
    train = "train grün.toml --backend golden --task digits --steps 1 --min-accuracy 0.999"
    code, _, errors = shell(GONE.format(train))
    assert (code, errors.splitlines()[-1].startswith("diastole: error: the accuracy is")) == (
        1,
        True,
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "C"],
)
@pytest.mark.sampled(2)
def test_few_characters(shell, environment):
    code, out, errors = shell("diastole check grün.toml", **environment)
    assert (code, errors) == (0, "")
    assert out.isascii()
    assert out.startswith("gr\\")
    code, out, errors = shell("diastole check grüner.toml", **environment)
    assert (code, out) == (2, "")
    assert errors.startswith("diastole: error: gr\\")


def test_a_file_never_takes_the_number_of_a_closed_output(shell, tmp_path):
    """What a library or a compiler prints would stand in it."""
    code = (
        "import os, sys; from diastole import cli\n"
        "cli.exit_code(lambda: 0); file = os.open('a', os.O_CREAT | os.O_WRONLY)\n"
        "assert file > 2, file; os.write(1, b'noise')"
    )
    (tmp_path / "code.py").write_text(code)
    assert shell(f"{sys.executable} code.py <&- >&-")[0] == 0
    assert (tmp_path / "a").read_bytes() == b""


def test_results_into_standard_output(shell, tmp_path):
    run = "run grün.toml --backend golden --op forward --in a.npz --out /dev/stdout"
    assert shell(f"diastole {run} --json >b.npz")[0] == 0
    with np.load(tmp_path / "b.npz") as found:
        assert found["Y"].tolist() == [[2, 2], [2, 2]]
