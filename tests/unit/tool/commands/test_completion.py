"""`diastole completion`: what a shell makes of the script."""

import subprocess

import pytest

from diastole.cli import COMMANDS
from diastole.commands.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_every_shell(diastole, shell):
    result = diastole("completion", shell)
    assert (result.code, result.err) == (0, [])
    names = [command.__name__.rpartition(".")[2] for command in COMMANDS]
    assert [name for name in names if name not in result.out] == []


def completed(script, *words):
    """What bash offers for the last of the words."""
    count = len(words)
    asked = f"""{script}
COMP_WORDS=({" ".join(f"'{word}'" for word in ("diastole", *words))}); COMP_CWORD={count}
_shtab_diastole diastole '{words[-1]}' '' 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes(diastole, tmp_path):
    script = diastole("completion", "bash").out
    assert completed(script, "es") == ["estimate"]
    assert completed(script, "run", "--late") == ["--latency"]
    assert completed(script, "run", "--op", "d") == ["dx", "dw"]
    assert "nano.toml" in completed(script, "check", "na")
