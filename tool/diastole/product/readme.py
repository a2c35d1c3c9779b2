"""Write the README of a product, for a reader who has only the directory of the product."""

from pathlib import Path
from string import Template
from typing import Any

from diastole.product import pictures, readme_numbers, readme_tables
from diastole.product.example import BASE, FirstRun
from diastole.product.facts import LICENCE, Files, ProductFacts
from diastole.product.register_maps import commands, errors, programs_path, registers
from diastole.synth.memories import MACRO_BITS, MACRO_WORDS
from diastole_hw.bus.signature import CACHE, PROT
from diastole_hw.plan_limits import RESET_CYCLES, max_convert_cols
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS, BY_NAME, MAGIC, VERSION
from diastole_sim.spec.sizes.queues import BURST_BEATS, OPEN_READS, OPEN_WRITES

TEMPLATE = Path(__file__).parent / "texts" / "readme.md"
_SECOND_PORT = """\
- Products also use the second port, `m_axi1_*`, with the same rules. Both ports must see the same
  memory. A port may read data that the other port wrote as soon as the write has its response.
"""
_FUSED = """
`backward` runs dX and dW in one pass for M up to {m} and N up to {n}, otherwise in two passes."""
_VECTOR = """
This machine has a vector unit. Operations of the vector unit run programs, which `load` writes into
tables of the unit. `{path}` describes the encoding. A host that only converts
and multiplies leaves COMMAND_FIRST, STEP, STEP_END and LOSS_SCALE at the values after a reset.
"""
_ENCODERS = """

For the vector unit, the driver has the structures `{name}_instruction` and `{name}_stream`. The
functions `{name}_encode_instruction` and `{name}_encode_stream` write entries of the tables of the
unit. The header has names for all values of the fields.\
"""
_PLANES = """ An image with several planes
consists of one image per plane, one behind the other, each of the size above. A command has the
number of planes less 1 in `width`, `width_x`, `width_w` or `width_dy`.\
"""


def readme_files(facts: ProductFacts, others: Files) -> Files:
    """Return README.md and the pictures. ``others``: the product's remaining files, to be
    listed."""
    run = FirstRun(numerics=facts.config.numerics, data_width=facts.config.bus.data_width)
    drawn: Files = {
        "doc/blocks.svg": ("picture", pictures.blocks(facts)),
        "doc/first_run.svg": ("picture", pictures.first_run(facts, run)),
    }
    listed: Files = {
        **others,
        **drawn,
        "README.md": ("document", ""),
        "manifest.json": ("manifest", ""),
    }
    return {"README.md": ("document", readme(facts, run, listed)), **drawn}


def readme(facts: ProductFacts, run: FirstRun, files: Files) -> str:
    """Return the text of the README with the figures of a machine."""
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    return facts.heading("<!--", " -->") + template.substitute(
        _figures(facts) | _sections(facts, files) | _run_lines(run)
    )


def _figures(facts: ProductFacts) -> dict[str, Any]:
    """Return the numbers and names of the template."""
    plan = facts.config.plan
    beat = plan.beat_bytes
    machines = facts.machines
    ports = ["`m_axi_*`"] + [f"`m_axi{port}_*`" for port in range(1, plan.ports)]
    return {
        "name": facts.name,
        "prefix": facts.name.upper(),
        "macs": plan.macs,
        "licence": LICENCE,
        "reset_cycles": RESET_CYCLES,
        "master_names": " and ".join(ports),
        "data_width": plan.data_width,
        "beat": beat,
        "address_bits": ADDRESS_BITS,
        "size": (beat - 1).bit_length(),
        "burst_beats": BURST_BEATS,
        "burst_bytes": BURST_BEATS * beat,
        "open_reads": OPEN_READS,
        "open_writes": OPEN_WRITES,
        "cache": f"{CACHE:04b}",
        "prot": f"{PROT:03b}",
        "lite_bits": ADDRESS_SPACE_BITS,
        "hash": f"{facts.config.identification:08X}",
        "magic": f"{MAGIC:08X}",
        "version": f"{VERSION:08X}",
        **{name: f"{BY_NAME[name].offset:02X}" for name in ("status", "error_code", "error_index")},
        "block": plan.block,
        "max_size": MAX_SIZE,
        "max_cols": max_convert_cols(plan),
        "max_contraction": plan.numerics.max_contraction,
        "second_port": _SECOND_PORT if plan.ports > 1 else "",
        "who": "all computed by the machine"
        if facts.vector
        else "with products computed by the machine",
        "encoders": _ENCODERS.format(name=facts.name) if facts.vector else "",
        "vector": _VECTOR.format(path=programs_path(facts)) if facts.vector else "",
        "fused": _FUSED.format(
            m=plan.fused_blocks_m * plan.block, n=plan.fused_blocks_n * plan.block
        )
        if plan.fused
        else "",
        "macro_words": MACRO_WORDS,
        "macro_bits": MACRO_BITS,
        "planes": _PLANES if machines.planes else "",
        "sources": " ".join([facts.top, *facts.wrappers]),
    }


def _sections(facts: ProductFacts, files: Files) -> dict[str, str]:
    """Return tables, and the sections that the register map also contains."""
    texts = {
        "facts": readme_tables.facts_table(facts),
        "files": readme_tables.file_rows(files),
        "pinout": readme_tables.pinout(facts),
        "registers": registers(facts),
        "errors": errors(facts),
        "commands": commands(facts),
        "operations": readme_tables.operations_table(facts),
        "classes": readme_tables.classes_table(facts),
        "exponents": readme_tables.exponent_lines(facts),
        "values": readme_tables.value_lines(facts),
        "numbers": _numbers(facts),
    }
    return {name: "\n".join(lines) for name, lines in texts.items()}


def _numbers(facts: ProductFacts) -> list[str]:
    """Return lines on the rounding, and on the origin of random bits, exponents and functions."""
    paragraphs = [readme_numbers.draw_lines(facts), readme_numbers.exponent_choice_lines(facts)]
    if functions := readme_numbers.function_lines(facts):
        paragraphs.append(functions)
    lines = readme_tables.number_lines(facts)
    for paragraph in paragraphs:
        lines += ["", *paragraph]
    return lines


def _run_lines(run: FirstRun) -> dict[str, Any]:
    """Return the texts on the first run."""
    exact = "Y is exactly X W." if run.is_exact else "Y is X W within the error of the formats."
    return {
        **run.sizes,
        "base": f"{BASE:08X}",
        "layout": _inside(readme_tables.place_table(run)),
        "words": _inside(readme_tables.command_words(run)),
        "writes": _inside(readme_tables.write_table(run)),
        "exact": exact,
        "row": " ".join(f"{value:g}" for value in run.result[0].tolist()),
        "second": f"{run.result[1, 0]:g}",
        "images": "\n".join(readme_tables.image_dumps(run)),
    }


def _inside(lines: list[str]) -> str:
    """Return the lines, indented as a part of a list item."""
    return "\n".join(f"   {line}" for line in lines)
