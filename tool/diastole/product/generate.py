"""Generate the product directory: all files of a configuration, and the manifest."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import diastole
from diastole.config.file import to_toml
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files.outputs import check_folder
from diastole.product import black_boxes, collateral, constraints, cores
from diastole.product.facts import Files, ProductFacts
from diastole.product.host_files import host_files
from diastole.product.readme import readme_files
from diastole.product.register_maps import register_maps
from diastole_hw.emit.verilog import emit
from diastole_sim.host.product import MANIFEST
from diastole_sim.reading import read_manifest

_IDENTIFYING_KEYS = {"name", "version", "config_sha256", "top", "files"}
_CLOCKED_WRITE = {"kind": "write", "clock": "clk", "enable": "write_en"}
_WRITE_PORT = {"address": "write_addr", "data": "write_data"}
_READ_PORT = {"address": "read_addr", "data": "read_data"}


def generate(config: Config, directory: Path | str) -> dict[str, Any]:
    """Write the product of ``config`` to ``directory``, and return the manifest.

    The product is written beside the directory and renamed when complete. A reader therefore sees
    the whole old product or the whole new product. BadInput if ``directory`` exists and is no
    product, or cannot be written. Equal configurations give equal bytes.
    """
    # A link to a product is replaced at the target of the link. Writing refuses a circle of links.
    check_folder(Path(directory))
    directory = Path(os.path.realpath(directory))
    refuse_what_is_no_product(directory)
    contents, manifest = product_contents(config)
    replace_directory(directory, contents)
    return manifest


def product_contents(config: Config) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the text of every file of the product by relative path, manifest included; and the
    manifest."""
    from diastole_hw.top import Top  # import the whole machine only if needed

    top = Top(config.plan, config_hash=config.identification)
    emitted = emit(top, name=config.name, ports=top.ports)
    facts = ProductFacts(
        config=config,
        emitted=emitted,
        parameters=top.parameters,
        ports=[
            {"name": name, "direction": direction.value, "width": len(signal)}
            for name, (signal, direction) in top.ports.items()
        ],
        memories=[
            {
                "module": memory.module,
                "width": memory.width,
                "depth": memory.depth,
                "ports": memory_ports(memory.read_latency_cycles),
                "instances": memory.instances,
            }
            for memory in emitted.memories
        ],
        latencies=top.latencies,
    )
    files = product_files(facts)
    manifest: dict[str, Any] = {
        "name": config.name,
        "version": diastole.__version__,
        "config_sha256": config.config_sha256,
        "top": config.name,
        "macs": config.macs,
        "files": [
            {"path": path, "kind": kind, "sha256": hashlib.sha256(text.encode()).hexdigest()}
            for path, (kind, text) in files.items()
        ],
        "parameters": facts.parameters,
        "ports": facts.ports,
        "memories": facts.memories,
        "latencies": facts.latencies,
    }
    contents = {path: text for path, (_, text) in files.items()}
    contents[MANIFEST] = json.dumps(manifest, indent=2) + "\n"
    return contents, manifest


def memory_ports(read_latency_cycles: int) -> list[dict[str, Any]]:
    """Return the manifest's entry for a memory's ports. A read without latency has no clock."""
    clocked = {"clock": "clk", "enable": "read_en"} if read_latency_cycles else {}
    read = {"kind": "read"} | clocked | _READ_PORT | {"latency_cycles": read_latency_cycles}
    return [_CLOCKED_WRITE | _WRITE_PORT, read]


def product_files(facts: ProductFacts) -> Files:
    """Return every file but the manifest."""
    name, heading = facts.name, facts.heading("//") + "\n"
    of_host = host_files(facts)
    bench = [f"tb/{name}_tb.v", *(path for path in of_host if path.startswith("tb/vectors/"))]
    files: Files = {facts.top: ("verilog", heading + facts.emitted.verilog)}
    for memory in facts.emitted.memories:
        files[f"rtl/{memory.module}.v"] = ("memory", heading + memory.verilog)
    files |= black_boxes.black_boxes(facts)
    files["mem.json"] = ("memories", black_boxes.memory_table(facts))
    files[f"{name}.f"] = ("filelist", collateral.file_list([facts.top, *facts.wrappers]))
    files[f"{name}_bb.f"] = (
        "filelist",
        collateral.file_list([*facts.with_black_boxes, *facts.black_boxes]),
    )
    files[f"{name}.toml"] = ("configuration", to_toml(facts.config))
    files[f"{name}.core"] = ("core", cores.fusesoc(facts, bench=bench))
    files["librelane/config.json"] = ("librelane", cores.librelane(facts))
    files[f"lint/{name}.vlt"] = ("waiver", collateral.verilator_waivers())
    files["lint/slang.f"] = ("waiver", collateral.slang_options())
    files[facts.sdc] = ("constraints", constraints.sdc(facts))
    files[facts.xdc] = ("constraints", constraints.xdc(facts))
    files |= register_maps(facts)
    files |= of_host
    return readme_files(facts, files) | files


def refuse_what_is_no_product(directory: Path) -> None:
    """Raise BadInput if ``directory`` is present, but not a product of `generate`."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise BadInput(f"{directory} exists and is a file, not a product; choose another folder")
    try:
        manifest = read_manifest(directory / MANIFEST)
        is_product = isinstance(manifest, dict) and manifest.keys() >= _IDENTIFYING_KEYS
    except (OSError, ValueError):
        is_product = False
    if not is_product:
        raise BadInput(
            f"{directory} exists and is not a product (no {MANIFEST} of a product): the "
            "folder stays unchanged; choose another folder"
        )


def replace_directory(directory: Path, contents: dict[str, str]) -> None:
    """Replace the contents of ``directory`` by exactly ``contents`` in a single step, or leave the
    directory unchanged."""
    new = directory.with_name(f".{directory.name}.new-{os.getpid()}")
    old = directory.with_name(f".{directory.name}.old-{os.getpid()}")
    try:
        new.mkdir(exist_ok=True)
        for path, text in contents.items():
            file = new / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        if directory.exists():
            directory.rename(old)
        new.rename(directory)
    except OSError as error:
        raise BadInput(f"cannot write {directory}: {error.strerror or error}") from error
    finally:
        if old.exists() and not directory.exists():
            old.rename(directory)  # interrupted between the two renames
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
