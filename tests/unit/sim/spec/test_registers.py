"""The register map against the addresses that drivers rely on, and what is published of it."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import (
    FIELDS,
    VECTOR_OPCODES,
    Opcode,
    machine_fields,
    opcodes_of,
)
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.publish import Constant, Published, c_header
from diastole_sim.spec.registers import (
    BY_NAME,
    END,
    FLAG_BITS,
    MAGIC,
    PLANES,
    REGISTERS,
    VECTOR,
    VECTOR_WAIT_CAUSES,
    VERSION,
    WAIT_CAUSES,
    WAIT_REGISTERS,
    registers_of,
    require_apart,
)
from oracle import vector_words as words

OFFSETS = {
    "magic": 0x00,
    "version": 0x04,
    "config_hash": 0x08,
    "control": 0x0C,
    "status": 0x10,
    "error_code": 0x14,
    "error_index": 0x18,
    "command_count": 0x1C,
    "command_address": 0x20,
    "seed": 0x28,
    "read_base": 0x30,
    "read_limit": 0x38,
    "write_base": 0x40,
    "write_limit": 0x48,
    "flags": 0x50,
    "saturated": 0x54,
    "underflowed": 0x58,
    "amax": 0x5C,
    "cycles": 0x60,
    "convert_cycles": 0x68,
    "read_beats": 0x70,
    "write_beats": 0x78,
    "cycles_total": 0xA0,
    "improvement_num": 0xA8,
    "improvement_den": 0xAC,
    "step": 0xB0,
    "step_end": 0xB4,
    "command_first": 0xB8,
    "loss_scale": 0xBC,
    "loss_window": 0xC0,
    "loss_clean": 0xC4,
    "wait_vector": 0xC8,
    "wait_store": 0xD0,
    "wait_load": 0xD8,
    "wait_update": 0xE0,
    "wait_chain": 0xE8,
    "wait_convert": 0xF0,
    "wait_command": 0xF8,
    "busy_slots": 0x100,
}
OF_VECTOR = tuple(name for name, offset in OFFSETS.items() if 0xB0 <= offset < 0xC8)


def test_offsets_stay_where_they_are():
    assert {register.name: register.offset for register in REGISTERS} == OFFSETS
    assert MAGIC == 0x53414944
    assert END == 0x108
    assert VERSION == 0x0001_0000


def test_what_only_some_machines_have():
    assert PLANES == ("improvement_num", "improvement_den")
    assert VECTOR == OF_VECTOR
    absent = {(planes, vector): set() for planes in (False, True) for vector in (False, True)}
    for (planes, vector), names in absent.items():
        names |= set(() if planes else PLANES) | set(() if vector else OF_VECTOR)
        present = [register.name for register in registers_of(planes=planes, vector=vector)]
        assert present == [name for name in OFFSETS if name not in names]
    assert registers_of(planes=True) == registers_of(planes=True, vector=False)


def test_kinds_of_the_vector_units_registers():
    kinds = {name: BY_NAME[name].kind for name in OF_VECTOR}
    assert {name for name, kind in kinds.items() if kind == "state"} == {
        "step", "loss_scale", "loss_clean",
    }  # fmt: skip
    assert {name for name, kind in kinds.items() if kind == "setting"} == {
        "step_end", "command_first", "loss_window",
    }  # fmt: skip
    assert BY_NAME["loss_scale"].bit("on") == 31


def test_registers_that_overlap_are_refused():
    first, second = replace(BY_NAME["step"], bits=64), BY_NAME["step_end"]
    with pytest.raises(ValueError, match=r"^step_end at 0xb4 must not overlap step$"):
        require_apart([second, first])
    require_apart([second, BY_NAME["step"]])


def test_what_the_array_waits_for():
    assert VECTOR_WAIT_CAUSES == ("vector", "update", "chain")
    assert WAIT_CAUSES == ("vector", "store", "load", "update", "chain", "convert", "command")
    counted = [*WAIT_REGISTERS.values(), "busy_slots"]
    assert {(BY_NAME[name].kind, BY_NAME[name].bits) for name in counted} == {("status", 64)}


def test_flags_are_those_of_drivers():
    flags = ("x_nan", "x_inf", "w_nan", "w_inf", "dy_nan", "dy_inf", "overflow", "inexact")
    assert [(bit.name, bit.low, bit.access) for bit in FLAG_BITS] == [
        (name, low, "w1c") for low, name in enumerate(flags)
    ]
    assert (BY_NAME["flags"].bits, BY_NAME["flags"].layout) == (8, FLAG_BITS)


def test_registers_do_not_overlap():
    words = [register.offset // 4 + n for register in REGISTERS for n in range(register.words)]
    assert len(words) == len(set(words))
    for register in REGISTERS:
        lows = [bit.low for bit in register.layout]
        assert len(lows) == len(set(lows))
        assert all(low < register.bits for low in lows)


def test_bits_by_name():
    assert BY_NAME["control"].bit("irq_enable") == 8
    assert [BY_NAME["status"].bit(name) for name in ("busy", "done", "error")] == [0, 1, 2]
    with pytest.raises(KeyError):
        BY_NAME["control"].bit("stop")


def published(**options) -> Published:
    """A machine, with or without planes and a vector unit."""
    planes, vector = options.get("planes", True), options.get("vector", True)
    unit = VectorLimits(panel_vectors=2) if vector else None
    widths = ((1, 2),) * 3 if planes else None
    return Published(
        prefix="MACHINE",
        origin="machine",
        config_sha256="12" * 32,
        identification=0x12121212,
        limits=Limits(block=8, headroom=4, data_width=64, planes=widths, vector=unit),
        opcodes=opcodes_of(vector=vector),
        fields=machine_fields(vector=vector),
        registers=registers_of(planes=planes, vector=vector),
        constants=(Constant(name="BLOCK", value=8, meaning="B"),),
    )


OF_PROGRAMS = {
    # As the oracle has them, and by hand.
    **{f"MICRO_{name}": getattr(words, name) for name in "NOP MAD SEL MOV EXP LGG".split()},
    "FROM_S0": words.STREAM,
    "FROM_S3": words.STREAM + 3,
    "FROM_CONSTANT": words.CONSTANT,
    "FROM_ZERO": words.NOUGHT,
    "FROM_ONE": words.UNIT,
    "FROM_INSIDE": words.INSIDE,
    "WHEN_ALWAYS": words.EVERY,
    "WHEN_NOT_LAST": words.NOT_LAST,
    "NO_REGISTER": words.NO_REGISTER,
    "NO_OUTPUT": words.NO_OUTPUT,
    "KIND_F32": words.KIND_F32,
    "KIND_CONSTANT": words.KIND_CONSTANT,
    "INSTRUCTION_K_WORD": 1,
    "INSTRUCTION_K_LOW": 9,
    "INSTRUCTION_K_BITS": 8,
    "STREAM_KIND_WORD": 1,
    "STREAM_KIND_LOW": 8,
    "STREAM_KIND_BITS": 4,
    "INSTRUCTION_BYTES": 8,
    "STREAM_BYTES": 16,
    "CHAIN_STREAMS": 8,
    "STREAM_SLOTS": 128,
    "TABLE_CONSTANTS": 1,
    "TABLE_DESCRIPTORS": 4,
    "SCALE_CONSTANT": 252,
    "PANEL_BLOCK_COLUMN_ZERO_FIRST": 3,
}


def test_header_compiles_and_has_everything(tmp_path):
    header = c_header(published())
    for name in [f"OP_{op.name}" for op in Opcode] + [f"ERROR_{code.name}" for code in ErrorCode]:
        assert f"#define MACHINE_{name} " in header
    checks = [f"MACHINE_REG_{name.upper()} == {at}" for name, at in OFFSETS.items()]
    checks += [
        f"32 * MACHINE_{f.name.upper()}_WORD + MACHINE_{f.name.upper()}_LOW == {f.low}"
        for f in FIELDS
    ]
    checks += ["MACHINE_CONTROL_IRQ_ENABLE == 256", "MACHINE_RESET_MAGIC == 0x53414944"]
    checks += ["MACHINE_RESET_VERSION == 0x00010000", "MACHINE_RESET_CONFIG_HASH == 0x12121212"]
    checks += ["MACHINE_RESET_SEED == 0", "MACHINE_BLOCK == 8"]
    checks += [f"MACHINE_{name} == {value}" for name, value in OF_PROGRAMS.items()]
    (tmp_path / "machine.h").write_text(header)
    asserts = "".join(f'_Static_assert({check}, "{n}");\n' for n, check in enumerate(checks))
    source = tmp_path / "check.c"
    source.write_text('#include "machine.h"\n#include "machine.h"\n' + asserts)
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "no C compiler, which g++ brings"
    command = [compiler, "-std=c11", "-Wall", "-Werror", "-c", str(source), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_header_says_which_fields_go_on_in_the_next_word():
    """Whoever shifts into one word must read so. By the oracle's table of fields: turn_lanes has
    bits 31 to 33, an address has 40 bits."""
    header = c_header(published())
    more = "/* the field continues in bits 0 to 1 of word 1 */"
    assert f"#define MACHINE_INSTRUCTION_TURN_LANES_BITS 3 {more}" in header
    assert (
        "#define MACHINE_ADDRESS_X_BITS 40 /* the field continues in bits 0 to 7 of word 5 */"
        in header
    )
    defined = dict(re.findall(r"^#define MACHINE_(\w+) (\d+)\b", header, re.MULTILINE))
    said = set(re.findall(r"MACHINE_(\w+)_BITS \d+ /\* the field continues in ", header))
    words = {name.removesuffix("_WORD") for name in defined if name.endswith("_WORD")}
    names = {name for name in words if f"{name}_BITS" in defined}
    assert {"OPCODE", "INSTRUCTION_OP", "STREAM_KIND"} <= names
    for name in names:
        crosses = int(defined[f"{name}_LOW"]) + int(defined[f"{name}_BITS"]) > 32
        assert crosses == (name in said), name
    assert "some widths are 32 and more" in " ".join(header.split())


def test_header_says_how_registers_are_reached():
    lines = c_header(published()).splitlines()
    assert "#define MACHINE_REG_SEED 0x28 /* setting: seed of all random bits */" in lines
    (line,) = (line for line in lines if "MACHINE_STATUS_DONE" in line)
    assert line.endswith("/* w1c: all commands are done; start and reset clear this bit too */")


def test_header_of_machines_without_a_vector_unit():
    """The header lacks the names of the vector unit, and only these names."""
    lines = set(c_header(published()).splitlines())
    fewer = set(c_header(published(vector=False)).splitlines())
    assert fewer <= lines
    defines = {line for line in lines - fewer if line.startswith("#define ")}
    names = {line.split()[1].removeprefix("MACHINE_") for line in defines}
    added = {field.name for field in FIELDS} - {f.name for f in machine_fields(vector=False)}
    wanted = {f"{name.upper()}_{part}" for name in added for part in ("WORD", "LOW", "BITS")}
    wanted |= {f"OP_{opcode.name}" for opcode in VECTOR_OPCODES}
    wanted |= {f"ERROR_{name}" for name in ("BAD_PROGRAM", "NOT_FINITE", "BAD_STREAM")}
    wanted |= {f"{kind}_{name.upper()}" for name in OF_VECTOR for kind in ("REG", "RESET")}
    wanted |= {"LOSS_SCALE_ON"}
    assert names >= wanted | set(OF_PROGRAMS)
    of_programs = ("INSTRUCTION", "STREAM", "MICRO_", "FROM_", "WHEN_", "KIND_", "PANEL_", "TABLE_")
    others = {"MOST_INSTRUCTIONS", "REGISTERS", "NO_REGISTER", "NO_OUTPUT", "CONSTANTS"}
    others |= {"SCALE_CONSTANT", "INVERSE_CONSTANT", "FLOOR_CONSTANT", "CHAIN_STREAMS"}
    others |= {"SLOT_WORDS"}
    assert {name for name in names - wanted if not name.startswith(of_programs)} == others


def test_header_of_machines_without_planes():
    lines = set(c_header(published(vector=False)).splitlines())
    fewer = set(c_header(published(vector=False, planes=False)).splitlines())
    assert fewer <= lines
    names = {line.split()[1] for line in lines - fewer}
    assert names == {
        f"MACHINE_{kind}_IMPROVEMENT_{part}" for kind in ("REG", "RESET") for part in ("NUM", "DEN")
    }
