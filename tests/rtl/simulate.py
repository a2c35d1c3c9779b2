"""Builds Verilog for a simulator, and runs a cocotb bench on it."""

import os
import shutil
import subprocess
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from unittest import mock

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

ROOT = Path(__file__).parents[2] / "build" / "sim"
PROGRAMS = {"verilator": "verilator", "icarus": "iverilog"}
REQUIRED = "verilator"
TIMESCALE = ("1ns", "1ps")

# Short compilations, not fast simulations: the benches spend their time in Python. The rule for
# precompiled headers in the packaged Verilator does not work with g++ as it is.
MAKE_VARIABLES = {
    "CFG_CXXFLAGS_PCH_I": "-include",
    "OPT_FAST": "-O0",
    "OPT_SLOW": "-O0",
    "OPT_GLOBAL": "-O0",
}
# What every bench compiles alike: Verilator's own run-time, 15 s of a compilation of 30.
RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_threads.o", "verilated_vpi.o")
# A bench sees ports only; without this every signal is visible to it, which is slow to compile.
VISIBLE_PORTS = '`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n'
BUILD_ARGS = {
    "verilator": ["--no-public-flat-rw", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-fno-dfg"],
    "icarus": ["-g2005"],  # the last one counts; the runner asks for SystemVerilog
}


def simulators() -> list[str]:
    """The simulators to run on: Verilator, which must be there, and Icarus where it is."""
    return [name for name in PROGRAMS if name == REQUIRED or shutil.which(PROGRAMS[name])]


def missing() -> dict[str, str]:
    """The optional programs that are not there, and the command that installs each."""
    found = simulators()
    return {
        program: f"sudo apt-get install {program}"
        for name, program in PROGRAMS.items()
        if name not in found
    }


def run_bench(bench, top, verilog, simulator, *, seed, warnings="error::DeprecationWarning"):
    """Run all tests of the module ``bench`` on module ``top`` of the text ``verilog``.

    Builds in ``build/sim/TOP-SIMULATOR``, again only what has changed. AssertionError with the end
    of the log if a test fails, or if there is no result of any test.
    """
    folder = ROOT / f"{top}-{simulator}"
    folder.mkdir(parents=True, exist_ok=True)
    runner = get_runner(simulator)
    build(runner, top, verilog, simulator, folder)
    results, log = folder / "results.xml", folder / "run.log"
    results.unlink(missing_ok=True)
    # What failed, the results say; that there are none is a failure too.
    with suppress(SystemExit, RuntimeError):
        runner.test(
            test_module=bench,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=folder,
            results_xml=str(results),
            seed=seed,
            extra_env={"PYTHONWARNINGS": warnings},
            timescale=None if simulator == "verilator" else TIMESCALE,
            log_file=log,
        )
    require_passed(results, log)


def build(runner, top, verilog, simulator, folder):
    """AssertionError with the end of the log if the simulator or the compiler refuses."""
    sources = [write_changed(folder / f"{top}.v", verilog)]
    if simulator == "verilator":
        text = VISIBLE_PORTS.format(top=top)
        sources.insert(0, write_changed(folder / "visible.vlt", text))
    variables = " ".join(f"{name}={value}" for name, value in MAKE_VARIABLES.items())
    shared = ROOT / f"runtime-{runtime_key(variables)}" if simulator == "verilator" else None
    if shared and shared.exists():  # to `make` they are up to date
        for name in RUNTIME:
            if not (folder / name).exists():
                shutil.copyfile(shared / name, folder / name)
    try:
        with mock.patch.dict(os.environ, MAKEFLAGS=variables):
            runner.build(
                sources=sources,
                hdl_toplevel=top,
                build_dir=folder,
                build_args=BUILD_ARGS[simulator],
                timescale=TIMESCALE,
                log_file=folder / "build.log",
            )
    except (SystemExit, RuntimeError) as error:
        raise AssertionError(f"{top} does not build:\n{tail(folder / 'build.log')}") from error
    if shared and not shared.exists():
        keep(folder, shared)


def runtime_key(variables: str) -> str:
    """Of what the run-time's objects depend on."""
    asked = ["verilator", "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return f"{zlib.crc32(f'{version} {variables}'.encode()):08x}"


def keep(folder: Path, shared: Path):
    """Put the run-time's objects where the next bench finds them, all or none; somebody else's that
    are there by then will do."""
    with tempfile.TemporaryDirectory(dir=ROOT) as making:
        for name in RUNTIME:
            shutil.copyfile(folder / name, Path(making) / name)
        with suppress(OSError):
            Path(making).rename(shared)
            Path(making).mkdir()  # for the context to remove


def require_passed(results: Path, log: Path):
    """AssertionError unless the results name at least one test, and no failure."""
    assert results.exists(), f"the simulation ended without results:\n{tail(log)}"
    tests, failed = get_results(results)
    assert tests, f"no test was run:\n{tail(log)}"
    assert not failed, f"{failed} of {tests} tests failed:\n{tail(log)}"


def write_changed(path: Path, text: str) -> Path:
    """Write a file, but leave it as old as it is if it has this text already."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def tail(log: Path, lines: int = 60) -> str:
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
