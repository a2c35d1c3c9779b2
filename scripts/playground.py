"""Writes the parts of the playground that are made: the machine as WebAssembly, and its facts.

    python scripts/playground.py [FOLDER]

Generates the product of `pico`, compiles the product and its host in C for WebAssembly, and writes
FOLDER/pico.js (build/playground). The compiler, ziglang, has an environment of its own in
build/zig. If pip does not install ziglang, pico.js says what is missing. The module is compiled
once for the same sources.
"""

import argparse
import base64
import gzip
import hashlib
import json
import sys
import time
from pathlib import Path

from environments import ROOT
from playground_facts import facts
from wasm_module import COMPILER, MODULE, NoCompiler, compile_module, recipe

from diastole.backend import generated_product
from diastole.cli import exit_code
from diastole.config.presets import PRESETS
from diastole.console import note, say
from diastole.errors import CheckFailed
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import BuildError
from diastole_sim.system.cache import Cache, user_folder

COMPILER_FOLDER = ROOT / "build" / "zig"
SCRIPT = "pico.js"


def module(product: Product, compiler: Path) -> Path:
    """Return the WebAssembly module of a product, compiled if no module of this content exists."""
    digest = hashlib.sha256(repr(recipe(product)).encode())
    for path in sorted(path for path in product.directory.rglob("*") if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())

    def compile_into(folder: Path) -> None:
        note("compiling pico for WebAssembly: some minutes, once")
        began = time.monotonic()
        compile_module(product, compiler, folder)
        note(f"compiled in {time.monotonic() - began:.0f} s")

    key = f"{product.name}-{digest.hexdigest()[:32]}"
    return Cache(user_folder() / "wasm").get(key, compile_into) / MODULE


def write(folder: Path, compiler: Path = COMPILER_FOLDER) -> None:
    """Write :data:`SCRIPT` into ``folder``, with the machine or with what is missing. CheckFailed
    if a tool refuses the sources."""
    product = Product.load(generated_product(PRESETS["pico"]))
    try:
        code = module(product, compiler).read_bytes()
    except NoCompiler as error:
        note(f"the playground lacks its machine: {error}")
        made: dict[str, object] = {"missing": COMPILER[0]}
    except BuildError as error:
        raise CheckFailed(str(error)) from error
    else:
        packed = gzip.compress(code, mtime=0)
        say(f"pico in WebAssembly: {len(code)} bytes, {len(packed)} compressed")
        made = {"facts": facts(product), "wasm": base64.b64encode(packed).decode()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(f'"use strict";\nconst PICO = {json.dumps(made)};\n')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("build/playground"))
    write(parser.parse_args().folder)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
