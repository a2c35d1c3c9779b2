"""The Python driver of a machine: it stands alone, and says what the contract says."""

import ast
import struct
import sys
import types

import pytest

from diastole.product.python_driver import python_driver
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ERROR_MEANINGS
from diastole_sim.spec.command_table import OPERAND_CLASSES, fields_of
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.registers import BY_NAME
from support.host_machines import VIEWS, FakeRegisters
from support.texts import exactly


def load(view):
    """The driver as a module of its own."""
    name = f"driver_of_{view.name}"
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look there
    exec(compile(python_driver(view), f"{view.name}.py", "exec"), vars(module))
    return module


DRIVERS = {name: load(view) for name, view in VIEWS.items()}


@pytest.fixture(params=VIEWS)
def pair(request):
    return VIEWS[request.param], DRIVERS[request.param]


def machine_with(registers, wait_irq=None, driver=DRIVERS["squares"]):
    return driver.Machine(registers, wait_irq)


def test_it_needs_nothing_of_ours():
    tree = ast.parse(python_driver(VIEWS["choices"]))
    names = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {"collections.abc"}


def test_sizes_are_those_of_the_contract(pair, rng):
    view, driver = pair
    for shape in [(1, 1), *((rng.randrange(1, 400), rng.randrange(1, 400)) for _ in range(40))]:
        floats = FloatLayout(rows=shape[0], cols=shape[1], data_width=view.limits.data_width)
        assert driver.float_pitch(shape[1]) == floats.pitch_bytes
        assert driver.float_bytes(*shape) == floats.total_bytes
        for name in driver.CLASSES:
            chosen = view.numerics.converted_class(name)
            wanted = image_layouts(
                chosen, shape, block=view.block, data_width=view.limits.data_width
            )
            for copy, layout in enumerate(wanted):
                image = driver.Image(name, copy, *shape)
                assert image.blocks == (layout.row_blocks, layout.col_blocks)
                for part in ("pitch_bytes", "row_max_offset", "col_max_offset", "total_bytes"):
                    assert getattr(image, part) == getattr(layout, part), (name, copy, part)
                for part in ("row_max_entries", "col_max_entries"):
                    assert getattr(image, part) == getattr(layout, part), (name, copy, part)


def test_commands_are_those_of_the_contract(pair, rng):
    view, driver = pair
    assert {op.name.lower(): op for op in view.opcodes} == driver.OPCODES
    for opcode in view.opcodes:
        used = {field.name for field in fields_of(opcode)}
        implied = {n: place for n, place in OPERAND_CLASSES.items() if n in used and opcode != 1}
        for _ in range(10):
            values = {
                field.name: rng.getrandbits(field.bits)
                for field in view.arguments(opcode)
                if rng.random() < 0.7
            }
            wanted = Command(opcode=opcode, **values, **implied).encode()
            assert driver.command(opcode.name.lower(), **values) == wanted


def test_bad_commands():
    driver = DRIVERS["squares"]
    text = "operation must be one of convert, forward, dx, dw, backward, not chain"
    with pytest.raises(ValueError, match=exactly(text)):
        driver.command("chain")
    with pytest.raises(ValueError, match=r"^dx takes .*, not address_x, tag$"):
        driver.command("dx", tag=1, address_x=2)
    with pytest.raises(ValueError, match=exactly("m must be in 0..4294967295, not 4294967296")):
        driver.command("dx", m=1 << 32)
    with pytest.raises(ValueError, match=exactly("ahead must be in 0..1, not -1")):
        driver.command("dx", ahead=-1)


def test_bad_images():
    driver = DRIVERS["squares"]
    with pytest.raises(ValueError, match=exactly("class must be one of x, w, dy, not y")):
        driver.Image("y", 0, 1, 1)
    with pytest.raises(ValueError, match=exactly("copy must be below 1, not 1")):
        driver.Image("x", 1, 1, 1)


def test_registers_are_those_of_the_contract(pair):
    view, driver = pair
    assert list(driver.REGISTERS) == [register.name for register in view.registers]
    for register in view.registers:
        assert driver.REGISTERS[register.name][:2] == (register.offset, register.bits)
        bits = {bit.name: 1 << bit.low for bit in register.layout}
        assert driver.BITS.get(register.name, {}) == bits
    machine = machine_with(FakeRegisters(view), driver=driver)
    machine.identify()
    assert machine.read("config_hash") == int(view.config_sha256[:8], 16)
    assert view.config_sha256 == driver.CONFIG_SHA256
    assert {int(code): ERROR_MEANINGS[code] for code in view.published.errors} == driver.ERRORS


def test_another_machine():
    registers = FakeRegisters(VIEWS["squares"])
    registers.words[BY_NAME["version"].offset] += 1
    with pytest.raises(ValueError, match=r"^the machine's version is 0x10001, not 0x10000$"):
        machine_with(registers).identify()


def test_a_counter_is_read_whole():
    registers, at = FakeRegisters(VIEWS["squares"]), BY_NAME["cycles"].offset
    registers.next = {at: [0xFFFF_FFFE, 1], at + 4: [6, 7]}
    registers.words[at + 4] = 7
    assert machine_with(registers).read("cycles") == 7 << 32 | 1
    assert machine_with(registers).read("command_count") == 0


def offsets(*writes):
    return [(BY_NAME[name].offset + 4 * word, value) for name, word, value in writes]


def test_a_run_by_looking():
    registers, status = FakeRegisters(VIEWS["squares"]), BY_NAME["status"].offset
    machine = machine_with(registers)
    registers.next = {status: [1, 1, 2]}
    machine.windows(reads=(0x12_0000_0001, 2), writes=(3, 0x34_0000_0004))
    machine.run(0x56_0000_0040, 7)
    assert registers.written == offsets(
        *(("read_base", 0, 1), ("read_base", 1, 0x12), ("read_limit", 0, 2), ("read_limit", 1, 0)),
        *(("write_base", 0, 3), ("write_base", 1, 0)),
        *(("write_limit", 0, 4), ("write_limit", 1, 0x34), ("control", 0, 4)),
        *(("command_address", 0, 0x40), ("command_address", 1, 0x56)),
        *(("command_count", 0, 7), ("control", 0, 1), ("status", 0, 2)),
    )
    registers.words[status] = 1
    with pytest.raises(TimeoutError, match=r"^the machine is still busy$"):
        machine.wait(3)


def test_a_run_by_interrupt():
    registers, status = FakeRegisters(VIEWS["squares"]), BY_NAME["status"].offset
    rung = []

    def wait_irq():
        rung.append(1)
        registers.words[status] = len(rung)

    machine_with(registers, wait_irq).run(0, 1)
    assert len(rung) == 2
    assert offsets(("control", 0, 0x101))[0] in registers.written


def test_errors_and_reset():
    registers, status = FakeRegisters(VIEWS["squares"]), BY_NAME["status"].offset
    machine = machine_with(registers)
    registers.words |= {status: 4, BY_NAME["error_code"].offset: 3}
    registers.words[BY_NAME["error_index"].offset] = 5
    text = "command 5: a reserved bit, or a field that the operation does not use, is not 0 (3)"
    with pytest.raises(DRIVERS["squares"].MachineError, match=exactly(text)) as caught:
        machine.run(0, 1)
    assert (caught.value.code, caught.value.index) == (3, 5)
    registers.next = {status: [5, 1, 0]}
    machine.reset()
    assert registers.written[-1] == (BY_NAME["control"].offset, 2)
    registers.words[status] = 1
    with pytest.raises(TimeoutError):
        machine.reset(2)


def test_flags():
    registers = FakeRegisters(VIEWS["squares"])
    registers.words[BY_NAME["flags"].offset] = 0x81
    assert machine_with(registers).flags() == {"x_nan", "inexact"}


def test_uio_devices_are_found_by_name(tmp_path):
    names = {"uio0": "axi-pmon", "uio3": "diastole", "uio4": "diastole-too"}
    for device, name in names.items():
        (tmp_path / device).mkdir()
        (tmp_path / device / "name").write_text(f"{name}\n")
    find = DRIVERS["squares"].find_uio
    assert find("diastole", str(tmp_path)) == "/dev/uio3"
    text = "no UIO device has the name other; names of devices: axi-pmon, diastole, diastole-too"
    with pytest.raises(FileNotFoundError, match=exactly(text)):
        find("other", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"names of devices: none$"):
        find("other", str(tmp_path / "none"))


def test_registers_in_a_mapped_file(tmp_path):
    """Words lie at their offsets, little-endian, from the base on."""
    path = tmp_path / "device"
    path.write_bytes(bytes(4096) + struct.pack("<3I", 1, 2, 0xFFFF_FFFF) + bytes(4084))
    with DRIVERS["squares"].Mapped(str(path), 4096, base=4096) as port:
        assert [port.read(offset) for offset in (0, 4, 8)] == [1, 2, 0xFFFF_FFFF]
        machine_with(port).write("command_address", 0x12_3456_7840)
    content = path.read_bytes()
    assert content[4096 + 0x20 : 4096 + 0x28] == (0x12_3456_7840).to_bytes(8, "little")
    assert content[:4096] == bytes(4096)
