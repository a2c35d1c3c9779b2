"""The C driver of a machine: sizes, commands and registers, against the contract."""

import numpy as np
import pytest

from diastole.product.c_driver import c_driver, c_host
from diastole.product.vectors import c_vectors, make_vectors
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ERROR_MEANINGS, ErrorCode
from diastole_sim.spec.command_table import OPERAND_CLASSES, Opcode, fields_of
from diastole_sim.spec.image import FloatLayout, StoredCopy, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.registers import BY_NAME
from oracle import vector_words as w
from support.c_library import COMPILERS, CLibrary, compile_c, port_of, write_headers
from support.host_machines import VIEWS, FakeRegisters


@pytest.fixture(scope="module", params=VIEWS)
def library(request, tmp_path_factory):
    return CLibrary(VIEWS[request.param], tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """That of one machine, for what all have."""
    return CLibrary(VIEWS["squares"], tmp_path_factory.mktemp("driver"))


def shapes(rng, count):
    edges = [(1, 1), (1, 300), (300, 1), (16_777_215, 16_777_215)]
    return edges + [(rng.randrange(1, 400), rng.randrange(1, 400)) for _ in range(count)]


def layouts(view, name, shape):
    chosen = view.numerics.converted_class(name)
    return image_layouts(
        chosen, shape, block=view.numerics.block, data_width=view.limits.data_width
    )


@pytest.mark.sampled(2)
def test_sizes_are_those_of_the_contract(library, rng):
    view = library.view
    for rows, cols in shapes(rng, 60):
        floats = FloatLayout(rows=rows, cols=cols, data_width=view.limits.data_width)
        assert library.float_pitch(cols) == floats.pitch_bytes
        assert library.float_bytes(rows, cols) == floats.total_bytes
        for number, name in enumerate(CLASS_NAMES):
            wanted = layouts(view, name, (rows, cols))
            assert len(wanted) == view.copies(name)
            for copy, layout in enumerate(wanted):
                image = library.image_of(number, copy, rows, cols)
                for part in ("rows", "cols", "row_blocks", "col_blocks", "row_groups"):
                    assert getattr(image, part) == getattr(layout, part), (name, copy, part)
                for part in ("pitch_bytes", "row_max_entries", "col_max_entries"):
                    assert getattr(image, part) == getattr(layout, part), (name, copy, part)
                for part in ("row_max_offset", "col_max_offset", "total_bytes"):
                    assert getattr(image, part) == getattr(layout, part), (name, copy, part)
                planes = rng.randrange(1, 5)
                size = library.image_bytes(number, copy, rows, cols, planes)
                assert size == planes * layout.total_bytes


def test_elements_and_exponents_are_where_the_contract_puts_them(library, rng):
    view, random = library.view, np.random.default_rng(rng.getrandbits(32))
    side = view.block
    for number, name in enumerate(CLASS_NAMES):
        shape = (rng.randrange(1, 3 * side + 2), rng.randrange(8 * side, 20 * side))
        for copy, layout in enumerate(layouts(view, name, shape)):
            rows, cols = layout.row_blocks * side, layout.col_blocks * side
            vectors = (rows, layout.row_vectors)
            stored = StoredCopy(
                codes=random.integers(0, 2**layout.element_bits, (rows, cols), np.uint16),
                exponents=random.integers(
                    0, 256, vectors if layout.vector else (rows // side, cols // side), np.uint8
                ),
                row_max=random.integers(0, 256, layout.row_max_entries, np.uint8),
                col_max=random.integers(0, 256, layout.col_max_entries, np.uint8),
            )
            image = layout.pack(stored, 5 if layout.header else None)
            bits = int.from_bytes(image.tobytes(), "little")
            its = library.image_of(number, copy, *shape)
            for _ in range(200):
                row, col = rng.randrange(layout.rows), rng.randrange(layout.cols)
                at = library.element_bit(its, row, col)
                code = bits >> at & (1 << layout.element_bits) - 1
                assert code == stored.codes[row, col], (name, copy, row, col)
                place = (row, col // layout.vector) if layout.vector else (row // side, col // side)
                exponent = image[library.exponent_offset(its, row, col)]
                assert exponent == stored.exponents[place], (name, copy, row, col)
                group = library.group_offset(its, row, col)
                assert group == layout.group_offset(row // side, col // side // 8)


def test_commands_are_those_of_the_contract(library, rng):
    for opcode in library.view.opcodes:
        fields = library.view.arguments(opcode)
        classes = {name: place for name, place in OPERAND_CLASSES.items() if opcode != 1}
        used = {field.name for field in fields_of(opcode)}
        implied = {name: place for name, place in classes.items() if name in used}
        for turn in range(20):
            values = {
                field.name: rng.getrandbits(field.bits) if turn else 2**field.bits - 1
                for field in fields
                if not turn or rng.random() < 0.7
            }
            command, wide = library.encode(opcode, values)
            assert command == Command(opcode=opcode, **values, **implied).encode(), opcode
            assert not wide
        for field in fields:
            most = 64 if field.bits > 32 else 32
            if field.bits < most:
                assert library.encode(opcode, {field.name: 1 << field.bits})[1], field.name


@pytest.fixture(scope="module", params=["floats", "choices"])
def with_unit(request, tmp_path_factory):
    """Those of machines with a vector unit."""
    return CLibrary(VIEWS[request.param], tmp_path_factory.mktemp("driver"))


def test_instructions_are_those_of_the_oracle(with_unit, rng):
    negated = {"negate_a": 1, "negate_b": 2, "negate_c": 4}
    names = [name for name in w.FIELDS if name not in ("rest", "negate")]
    for _ in range(100):
        values = {name: rng.randrange(1 << w.FIELDS[name][1]) for name in names}
        signs = {name: rng.randrange(2) for name in negated}
        negate = sum(bit * signs[name] for name, bit in negated.items())
        wanted = w.Instruction(**values, negate=negate).word.to_bytes(8, "little")
        assert with_unit.encode_entry("instruction", 8, values | signs) == (wanted, 0), values
    for op in (w.NOP, w.MAD, w.LGG):
        assert with_unit.instruction_of(op) == w.Instruction(op=op).word.to_bytes(8, "little")


STREAM_WORDS = [
    # By hand from docs/programs.md and the table of the README: 128 bits, the lowest word first.
    ({"kind": 1}, [0, 0x100, 0, 0]),
    ({"kind": 2, "address": 0xAB_1234_5678, "pitch": 64}, [0x1234_5678, 0x2AB, 64, 0]),
    ({"kind": 12, "address": 32, "tensor_class": 2, "aux": 255}, [32, 0x00FF_2C00, 0, 0]),
    (
        {"kind": 7, "address": 8, "per_step": 1, "watch": 1, "offset": 0x8000_0001},
        [8, 0xC700, 0, 0x8000_0001],
    ),
]


@pytest.mark.parametrize("values, words", STREAM_WORDS)
def test_streams(values, words, with_unit):
    wanted = b"".join(word.to_bytes(4, "little") for word in words)
    assert with_unit.encode_entry("stream", 16, values) == (wanted, 0)


def test_streams_of_machines_that_decide_widths(tmp_path):
    library = CLibrary(VIEWS["choices"], tmp_path)
    wanted = bytes(4) + (0xC000_0C00).to_bytes(4, "little") + bytes(8)
    given = {"kind": 12, "by_slot": 1, "decides": 1}
    assert library.encode_entry("stream", 16, given) == (wanted, 0)
    assert "by_slot" not in c_driver(VIEWS["floats"])


def test_entries_say_what_does_not_fit(with_unit):
    assert with_unit.encode_entry("instruction", 8, {"turn_lanes": 8})[1] == 1
    assert with_unit.encode_entry("stream", 16, {"address": 1 << 40})[1] == 1


def test_machines_without_a_vector_unit_have_no_programs():
    text = c_driver(VIEWS["squares"])
    assert "squares_instruction" not in text
    assert "squares_stream" not in text


def test_every_opcode_is_there():
    assert VIEWS["choices"].opcodes == tuple(Opcode)
    names = {field.name for op in Opcode for field in VIEWS["choices"].arguments(op)}
    assert {"by_slot", "slot_w", "width_dy", "nest_chunk", "advance"} <= names


def test_a_counter_is_read_whole(one):
    registers = FakeRegisters(one.view)
    at = BY_NAME["cycles"].offset
    registers.next = {at: [0xFFFF_FFFE, 0x0000_0001], at + 4: [6, 7]}
    registers.words |= {at: 0x0000_0003, at + 4: 7}
    assert one.read64(port_of(registers), at) == 7 << 32 | 1
    registers.words |= {at: 0x8000_0000, at + 4: 0x1234_5678}
    assert one.read64(port_of(registers), at) == 0x1234_5678_8000_0000


def test_identification(one):
    for name, result in (("magic", 0x100), ("version", 0x101), ("config_hash", 0x102)):
        registers = FakeRegisters(one.view)
        assert one.identify(port_of(registers)) == 0
        registers.words[BY_NAME[name].offset] ^= 0x8000
        assert one.identify(port_of(registers)) == result


def named(*writes):
    """Offsets of the words of registers by name, with values."""
    return [(BY_NAME[name].offset + 4 * word, value) for name, word, value in writes]


def test_settings_and_start(one):
    registers = FakeRegisters(one.view)
    port = port_of(registers)
    one.windows(port, 0x12_3456_7890, 0x22_0000_0001, 0x32_0000_0002, 0xFF_0000_0003)
    one.seed(port, 0xDEAD_BEEF)
    one.clear(port)
    one.start(port, 0x42_0000_0040, 9)
    assert registers.written == named(
        *(("read_base", 0, 0x3456_7890), ("read_base", 1, 0x12)),
        *(("read_limit", 0, 1), ("read_limit", 1, 0x22)),
        *(("write_base", 0, 2), ("write_base", 1, 0x32)),
        *(("write_limit", 0, 3), ("write_limit", 1, 0xFF)),
        *(("seed", 0, 0xDEAD_BEEF), ("control", 0, 4)),
        *(("command_address", 0, 0x40), ("command_address", 1, 0x42)),
        *(("command_count", 0, 9), ("control", 0, 1)),
    )


def test_waiting_by_looking(one):
    registers = FakeRegisters(one.view)
    port, status = port_of(registers), BY_NAME["status"].offset
    registers.next = {status: [1, 1, 2]}
    assert one.wait(port, 0) == 0
    assert registers.written == [(status, 2)]
    registers.words[status] = 1
    assert one.wait(port, 5) == 0x103
    registers.next = {status: [1, 1, 1, 1, 2]}
    assert one.wait(port, 5) == 0
    registers.next = {status: [1, 1, 1, 1, 1, 2]}
    assert one.wait(port, 5) == 0x103
    assert registers.next.pop(status) == [2]
    registers.words |= {status: 4, BY_NAME["error_code"].offset: 11}
    assert one.wait(port, 0) == ErrorCode.TOO_LARGE


def test_waiting_for_the_interrupt(one):
    registers, rung = FakeRegisters(one.view), []
    status = BY_NAME["status"].offset

    def wait_irq():
        rung.append(1)
        registers.words[status] = 2 if len(rung) == 2 else 1
        return 0

    port = port_of(registers, wait_irq)
    one.start(port, 0, 1)
    assert registers.written[-1] == (BY_NAME["control"].offset, 0x101)
    assert one.wait(port, 0) == 0
    assert len(rung) == 2
    assert one.wait(port_of(registers, lambda: 1), 0) == 0x103


def test_reset(one):
    registers = FakeRegisters(one.view)
    port, status = port_of(registers), BY_NAME["status"].offset
    registers.next = {status: [5, 5, 0]}
    assert one.reset(port, 0) == 0
    assert registers.written == [(BY_NAME["control"].offset, 2)]
    registers.words[status] = 1
    assert one.reset(port, 3) == 0x103


def test_errors_have_texts(library):
    for code in library.view.published.errors:
        assert library.error_text(code).decode() == ERROR_MEANINGS[code]
    assert library.error_text(0x102).decode().endswith("another configuration")
    assert library.error_text(99) == b"an unknown error"


@pytest.mark.parametrize("compiler", COMPILERS, ids=["C", "C++"])
def test_two_machines_in_one_program(compiler, tmp_path):
    source = ""
    for name in ("squares", "two_levels", "choices"):
        write_headers(VIEWS[name], tmp_path)
        source += 2 * f'#include "{VIEWS[name].name}_driver.h"\n'
    source += "int main(void) { return SQUARES_BLOCK != 2 || NVFP4_32_X_COPIES != 2; }\n"
    compile_c(tmp_path, source, "-o", str(tmp_path / "program"), compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS, ids=["C", "C++"])
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.sampled(3)
def test_the_host_compiles(name, compiler, tmp_path):
    view = VIEWS[name]
    write_headers(view, tmp_path)
    (tmp_path / f"{view.name}_vectors.h").write_text(c_vectors(view, make_vectors(view)))
    compile_c(tmp_path, c_host(view), "-fsyntax-only", compiler=compiler)


def test_names_are_the_machines():
    for text in (c_driver(VIEWS["floats"]), c_host(VIEWS["floats"])):
        assert "machine_" not in text
        assert "MACHINE_" not in text
        assert "@" not in text
