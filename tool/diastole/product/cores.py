"""Write build descriptions for tools that collect cores: FuseSoC, and LibreLane for ASICs."""

import json
from typing import Any

import diastole
from diastole.product.constraints import CLOCK, PERIOD_NS
from diastole.product.facts import ProductFacts

VENDOR, LIBRARY = "diastole", "machines"
PART = "xc7z020clg400-1"
"""FPGA part of the Vivado target, until the user sets another part. Many boards have this part."""


def fusesoc(facts: ProductFacts, bench: list[str]) -> str:
    """Return a FuseSoC core (CAPI2, flow API) with targets for lint, synthesis and simulation.

    ``bench``: paths of a plain Verilog bench, the file of the top module first, and paths of the
    files that the bench reads. With an empty ``bench``, the core has no target ``sim``.
    """
    name = facts.name
    lines = [
        "CAPI=2:",
        facts.heading("#").rstrip(),
        f"name: {VENDOR}:{LIBRARY}:{name}:{diastole.__version__}",
        f"description: {facts.config.macs} multipliers that train neural networks",
        "",
        "filesets:",
        *_fileset("rtl", [facts.top, *facts.wrappers], "verilogSource-2005"),
        *_fileset("waivers", [f"lint/{name}.vlt"], "vlt"),
        *_fileset("out_of_context", [facts.xdc], "xdc"),
    ]
    if bench:
        sources = [path for path in bench if path.endswith(".v")]
        lines += _fileset("bench", sources, "verilogSource-2005")
        lines += _copied("vectors", [path for path in bench if path not in sources])
    lines += [
        "",
        "targets:",
        "  default: &default",
        "    filesets: [rtl]",
        f"    toplevel: {name}",
        "  lint:",
        "    <<: *default",
        "    description: lint by Verilator with all warnings and the waivers of the product",
        "    filesets: [waivers, rtl]",
        "    flow: lint",
        "    flow_options: {tool: verilator, verilator_options: [-Wall]}",
        "  synth:",
        "    <<: *default",
        "    description: synthesis by Yosys for an ECP5, with a netlist in JSON",
        "    flow: generic",
        "    flow_options: {tool: yosys, arch: ecp5, output_format: json}",
        "  vivado:",
        "    <<: *default",
        "    description: synthesis by Vivado out of context, without place and route",
        "    filesets: [rtl, out_of_context]",
        "    flow: vivado",
        f"    flow_options: {{part: {PART}, pnr: none}}",
    ]
    if bench:
        top = bench[0].rpartition("/")[2].removesuffix(".v")
        lines += [
            "  sim:",
            "    description: simulation of the self-checking bench in Icarus",
            "    filesets: [rtl, bench, vectors]",
            f"    toplevel: {top}",
            "    flow: sim",
            "    flow_options: {tool: icarus, iverilog_options: [-g2005-sv]}",
        ]
    return "\n".join([*lines, ""])


def _fileset(name: str, paths: list[str], kind: str) -> list[str]:
    files = [f"      - {path}" for path in paths]
    return [f"  {name}:", f"    file_type: {kind}", "    files:", *files]


def _copied(name: str, paths: list[str]) -> list[str]:
    """Return a fileset of files that the bench opens by a path relative to the bench's folder."""
    files = [f"      - {path}: {{copyto: {path.partition('/')[2]}}}" for path in paths]
    return [f"  {name}:", "    file_type: user", "    files:", *files]


def librelane(facts: ProductFacts) -> str:
    """Return a LibreLane configuration with a macro stub for every memory that is worth a macro:
    the views that the user puts in ``librelane/macros``. The remaining memories are logic. Paths
    are relative to the folder of the configuration file."""
    config: dict[str, Any] = {
        "meta": {"version": 2},
        "DESIGN_NAME": facts.name,
        "VERILOG_FILES": [f"dir::../{path}" for path in facts.with_black_boxes],
        "EXTRA_VERILOG_MODELS": [f"dir::../{path}" for path in facts.black_boxes],
        "CLOCK_PORT": CLOCK,
        "CLOCK_PERIOD": PERIOD_NS,
        "PNR_SDC_FILE": f"dir::../{facts.sdc}",
        "SIGNOFF_SDC_FILE": f"dir::../{facts.sdc}",
        "MACROS": {
            module: {
                "gds": [f"dir::macros/{module}.gds"],
                "lef": [f"dir::macros/{module}.lef"],
                "lib": {"*": [f"dir::macros/{module}.lib"]},
                "instances": {},
            }
            for module in facts.macros
        },
    }
    return json.dumps(config, indent=2) + "\n"
