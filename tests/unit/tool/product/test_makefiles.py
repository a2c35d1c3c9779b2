"""Where the Makefiles of a product build: beside the sources, or elsewhere if a path has spaces."""

import os
import re
import shutil
import subprocess

import pytest

from diastole.product.benches import cocotb_makefile
from diastole.product.c_driver import host_makefile
from diastole.product.host_view import HostView
from support.host_machines import CONFIGS

VERILATOR = """#!/bin/sh
for word; do case $word in sw/*.c) source=$word;; esac; done
for word; do test "$before" = -o && program=$word; before=$word; done
case "$*" in *"-j 2"*) echo two at a time;; esac
while [ "$1" != -Mdir ]; do shift; done
case "$2" in /*) from=$2;; *) from=$PWD/$2;; esac
printf '#!/bin/sh\\nsed s/^/PASS:/ "%s/%s"\\n' "$from" "$source" > "$2/$program"
chmod +x "$2/$program"
"""
"""Makes a program that prints the host's source."""
VIEW = HostView.of(CONFIGS["squares"])


@pytest.fixture
def product(tmp_path):
    """``product(path, text)``: the parts of a product that make reads, with a host of its own."""

    def make(path, text):
        folder = tmp_path / path
        for name in ("sw", "tb"):
            (folder / name).mkdir(parents=True)
        (folder / f"{VIEW.name}.f").write_text("")
        (folder / "sw" / "Makefile").write_text(host_makefile(VIEW))
        (folder / "tb" / "Makefile").write_text(cocotb_makefile(VIEW))
        names = ("board.cpp", f"{VIEW.name}.h", f"{VIEW.name}_driver.h", f"{VIEW.name}_vectors.h")
        for name in names:
            (folder / "sw" / name).write_text("")
        (folder / "sw" / "host.c").write_text(f"{text}\n")
        return folder

    return make


@pytest.fixture
def run(tmp_path):
    """Run make with a Verilator that costs nothing; exit status and all that was printed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "verilator").write_text(VERILATOR)
    (tmp_path / "bin" / "verilator").chmod(0o755)
    (tmp_path / "tmp").mkdir()

    def run(folder, *words, **more):
        environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), **more}
        environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
        command = ["make", "-j2", *words]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    return run


def own(tmp_path):
    return sorted((tmp_path / "tmp").glob("diastole-*"))


def test_beside_the_sources(tmp_path, product, run):
    where = product("plain", "one") / "sw"
    status, said = run(where)
    assert (status, "PASS:one" in said) == (0, True), said
    assert (where / "build" / "host").exists()
    assert (where / "build" / "build.log").read_text() == "", "make -j2 says how many at a time"
    (where / "build" / "host").unlink()
    run(where, "-j1")
    assert (where / "build" / "build.log").read_text() == "two at a time\n"
    assert own(tmp_path) == []


def test_copies_have_folders_of_their_own(tmp_path, product, run):
    """A copy of a product that was built is built again, from the sources of the copy."""
    first = product("a b/one", "one")
    assert "PASS:one" in run(first / "sw")[1]
    second = shutil.copytree(first, tmp_path / "a b" / "two")
    (second / "sw" / "host.c").write_text("two\n")
    assert "PASS:two" in run(second / "sw")[1]
    assert len(own(tmp_path)) == 2
    assert "PASS:one" in run(first / "sw")[1], "still its own, though nothing is built again"
    assert len(own(tmp_path)) == 2
    for folder in own(tmp_path):
        assert folder.stat().st_mode & 0o77 == 0, "nobody else reads or writes there"


@pytest.mark.parametrize("folder", ["sw", "tb"])
def test_a_temporary_folder_with_spaces_is_none(tmp_path, product, run, folder):
    """The folder is below /tmp then."""
    spaced = tmp_path / "t m p"
    spaced.mkdir()
    where = product("a b/one", "one") / folder
    said = run(where, "-pn", "bench" if folder == "tb" else "run", TMPDIR=str(spaced))[1]
    (build,) = re.findall("^BUILD := (.*)$", said, re.MULTILINE)
    assert build.startswith("/tmp/diastole-")
    shutil.rmtree(build)
    assert list(spaced.iterdir()) == []


def test_another_place(tmp_path, product, run):
    where = product("a b/one", "one") / "sw"
    status, said = run(where, f"BUILD={tmp_path / 'mine'}")
    assert (status, "PASS:one" in said) == (0, True), said
    assert (tmp_path / "mine" / "host").exists()


def test_a_program_of_the_user(tmp_path, product, run):
    """Beside the Makefile or elsewhere; HOST of the environment, which some shells set, is none."""
    where = product("plain", "one") / "sw"
    (where / "mine.c").write_text("mine\n")
    (tmp_path / "yours.c").write_text("yours\n")
    for words, wanted in (
        (["HOST=mine.c"], "mine"),
        (["HOST=../../yours.c"], "yours"),
        ([], "one"),
    ):
        status, said = run(where, *words, HOST="a.computer")
        assert (status, f"PASS:{wanted}" in said) == (0, True), said
    assert {"mine", "yours", "host"} <= {path.name for path in (where / "build").iterdir()}


def test_the_verilator_of_the_python_package(tmp_path, product, run):
    """The package calls Verilator ``verilator-cli``. The host and the plain bench use the program
    where there is no ``verilator``."""
    where = product("plain", "one") / "sw"
    bench = where.with_name("tb")
    programs = tmp_path / "bin"
    shutil.copy(programs / "verilator", programs / "verilator-cli")
    (tmp_path / "system").mkdir()
    for name in ("make", "cat", "id", "cksum", "tr", "mkdir", "ln"):
        (tmp_path / "system" / name).symlink_to(str(shutil.which(name)))
    path = str(tmp_path / "system")
    for absent, wanted in (
        ((), "verilator"),
        (("verilator",), "verilator-cli"),
        (("verilator", "verilator-cli"), "verilator"),
    ):
        for name in absent:
            (programs / name).unlink(missing_ok=True)
        assert f"{wanted} --cc" in run(where, "-n", PATH=path)[1]
        assert f"{wanted} --binary" in run(bench, "-n", "bench", "SIM=verilator", PATH=path)[1]
    status, said = run(where, PATH=path)
    assert status != 0
    assert "verilator: " in said, "the name that users know"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_is_read_only(tmp_path, product, run):
    where = product("plain", "one") / "sw"
    where.chmod(0o555)
    try:
        status, said = run(where)
        assert (status, "PASS:one" in said) == (0, True), said
        assert len(own(tmp_path)) == 1
    finally:
        where.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone makes a folder another user's")
@pytest.mark.parametrize("folder", ["sw", "tb"])
def test_a_folder_of_another_user_is_refused(tmp_path, product, run, folder):
    """Whoever has put a folder of that name there would have the build run programs."""
    where = product("a b/one", "one") / folder
    run(where, "-n", "bench" if folder == "tb" else "run")
    (build,) = own(tmp_path)
    os.chown(build, 65534, 65534)
    status, said = run(where, "-n", "bench" if folder == "tb" else "run")
    assert status == 2
    assert f"{build} is not a folder of this user: choose a build folder" in said
