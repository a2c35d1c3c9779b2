"""Write the register map as SystemRDL 2.0, for tools that make documents, headers and models of
it."""

from collections.abc import Iterator
from dataclasses import replace

from diastole_sim.spec.reference import MachineSet, locked
from diastole_sim.spec.registers import CONSTANT, SPECIAL, STATUS, Bit, Register

_ACCESS = {
    "r": "sw = r; hw = w;",
    "rw": "sw = rw; hw = r;",
    "w": "sw = w; hw = r; singlepulse;",
    "w1c": "sw = rw; hw = w; onwrite = woclr; hwset;",
}
_KIND = {CONSTANT: "sw = r; hw = na;", STATUS: "sw = r; hw = w;"}
WORD_BITS = 32


def systemrdl(name: str, machines: MachineSet, by_words: bool = False) -> str:
    """Return an address map called ``name``. Registers of more than 32 bits are accessed in two
    words.

    ``by_words``: the two words are separate registers, ``NAME`` and ``NAME_high``, for descriptions
    in which no register is wider than the bus.
    """
    lines = [
        f"addrmap {name} {{",
        f'  name = "{name}";',
        '  desc = "Registers of 32 bits, little-endian, behind AXI4-Lite.";',
        f"  default accesswidth = {WORD_BITS};",
    ]
    for register in machines.registers:
        reset = machines.reset_value(register)
        words = _words(register) if by_words else [register]
        for number, word in enumerate(words):
            lines += _register(word, reset >> WORD_BITS * number)
    return "\n".join([*lines, "};", ""])


def _words(register: Register) -> list[Register]:
    if register.words == 1:
        return [register]
    high = replace(
        register,
        name=f"{register.name}_high",
        offset=register.offset + WORD_BITS // 8,
        bits=register.bits - WORD_BITS,
        meaning=f"the upper part of {register.name}: {register.meaning}",
    )
    return [replace(register, bits=WORD_BITS), high]


def _register(register: Register, reset: int) -> Iterator[str]:
    about = register.meaning
    if locked(register):
        about += "; locked while the machine is busy"
    yield "  reg {"
    yield f"    regwidth = {WORD_BITS * register.words};"
    yield f'    desc = "{_quoted(about)}";'
    yield from map(_bit, register.layout)
    lowest = min((bit.low for bit in register.layout), default=register.bits)
    if register.kind != SPECIAL:
        access = _KIND.get(register.kind, "sw = rw; hw = rw;")
        yield f"    field {{ {access} }} value[{lowest - 1}:0] = 0x{reset & ~(-1 << lowest):X};"
    yield f"  }} {register.name} @ 0x{register.offset:X};"


def _bit(bit: Bit) -> str:
    about = f'desc = "{_quoted(bit.meaning)}";'
    return f"    field {{ {_ACCESS[bit.access]} {about} }} {bit.name}[{bit.low}:{bit.low}] = 0;"


def _quoted(text: str) -> str:
    return text.replace('"', "'")
