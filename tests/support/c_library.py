"""The C driver of a machine as a library that tests call."""

import ctypes
import subprocess
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path

from diastole.product.c_driver import c_driver
from diastole.product.host_view import HostView
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.publish import c_header
from diastole_sim.spec.publish_programs import instruction_fields, stream_fields

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
COMPILERS = (("gcc", "-x", "c", "-std=c11"), ("g++", "-x", "c++", "-std=c++17"))

READ = CFUNCTYPE(c_uint32, c_void_p, c_uint32)
WRITE = CFUNCTYPE(None, c_void_p, c_uint32, c_uint32)
WAIT = CFUNCTYPE(c_int, c_void_p)


class Port(ctypes.Structure):
    """`machine_port` of the header."""

    _fields_ = [("context", c_void_p), ("read", READ), ("write", WRITE), ("wait_irq", WAIT)]


class Image(ctypes.Structure):
    """`machine_image` of the header."""

    _fields_ = [
        *((name, c_uint32) for name in ("tensor_class", "rows", "cols")),
        *((name, c_uint32) for name in ("row_blocks", "col_blocks", "row_groups")),
        *((name, c_uint64) for name in ("pitch_bytes", "row_max_entries", "col_max_entries")),
        *((name, c_uint64) for name in ("row_max_offset", "col_max_offset", "total_bytes")),
    ]


# What the library hands out: name, result, arguments.
_FUNCTIONS = (
    ("float_pitch", c_uint64, (c_uint32,)),
    ("float_bytes", c_uint64, (c_uint32, c_uint32)),
    ("image_of", Image, (c_uint32,) * 4),
    ("image_bytes", c_uint64, (c_uint32,) * 5),
    ("group_offset", c_uint64, (POINTER(Image), c_uint32, c_uint32)),
    ("exponent_offset", c_uint64, (POINTER(Image), c_uint32, c_uint32)),
    ("element_bit", c_uint64, (POINTER(Image), c_uint32, c_uint32)),
    ("read64", c_uint64, (POINTER(Port), c_uint32)),
    ("write64", None, (POINTER(Port), c_uint32, c_uint64)),
    ("identify", c_int, (POINTER(Port),)),
    ("windows", None, (POINTER(Port), *(c_uint64,) * 4)),
    ("seed", None, (POINTER(Port), c_uint32)),
    ("clear", None, (POINTER(Port),)),
    ("start", None, (POINTER(Port), c_uint64, c_uint32)),
    ("wait", c_int, (POINTER(Port), c_uint64)),
    ("reset", c_int, (POINTER(Port), c_uint64)),
    ("error_text", c_char_p, (c_int,)),
)
_TYPES = {
    c_uint32: "uint32_t",
    c_uint64: "uint64_t",
    c_int: "int",
    c_char_p: "const char *",
    POINTER(Image): "const NAME_image *",
    POINTER(Port): "const NAME_port *",
    Image: "NAME_image",
    None: "void",
}


INSTRUCTION_OF = """\
int c_instruction_of(uint8_t *entry, uint32_t op) {
    const NAME_instruction its = NAME_instruction_of(op);
    return NAME_encode_instruction(entry, &its);
}
"""


def write_headers(view: HostView, folder: Path) -> None:
    """Header and driver, as a product has them."""
    (folder / f"{view.name}.h").write_text(c_header(view.published))
    (folder / f"{view.name}_driver.h").write_text(c_driver(view))


def compile_c(folder: Path, source: str, *arguments: str, compiler=COMPILERS[0]) -> None:
    """Compile a text with all warnings; AssertionError with what the compiler says."""
    path = folder / "source.c"
    path.write_text(source)
    command = [*compiler, *STRICT, f"-I{folder}", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


class CLibrary:
    """The driver of a machine, compiled in ``folder``; its functions by their names without the
    machine's."""

    def __init__(self, view: HostView, folder: Path):
        self.view = view
        write_headers(view, folder)
        lines = [f'#include "{view.name}_driver.h"']
        lines += [self._call(*function) for function in _FUNCTIONS]
        lines += [self._encoder(opcode) for opcode in view.opcodes]
        if view.limits.has_vector:
            lines += [self._entry_encoder(name, fields) for name, fields in self._entries().items()]
            lines.append(INSTRUCTION_OF.replace("NAME", view.name))
        library = folder / "driver.so"
        flags = ("-shared", "-fPIC", "-O1", "-o", str(library), "-Wno-missing-prototypes")
        compile_c(folder, "\n".join([*lines, ""]), *flags)
        self._library = ctypes.CDLL(str(library))
        for name, result, arguments in _FUNCTIONS:
            function = getattr(self._library, f"c_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def _call(self, name, result, arguments) -> str:
        types = [_TYPES[kind].replace("NAME", self.view.name) for kind in (result, *arguments)]
        given = ", ".join(f"{kind} a{n}" for n, kind in enumerate(types[1:]))
        passed = ", ".join(f"a{n}" for n in range(len(arguments)))
        back = "return " * (result is not None)
        return f"{types[0]} c_{name}({given}) {{ {back}{self.view.name}_{name}({passed}); }}"

    def _encoder(self, opcode: Opcode) -> str:
        """A function that takes the arguments one behind the other."""
        name = opcode.name.lower()
        fields = self.view.arguments(opcode)
        lines = [f"int c_encode_{name}(uint8_t *command, const uint64_t *values) {{"]
        lines += [f"{self.view.name}_{name}_args a;"]
        for place, field in enumerate(fields):
            cast = "" if field.bits > 32 else "(uint32_t)"
            lines.append(f"a.{field.name} = {cast}values[{place}];")
        return " ".join([*lines, f"return {self.view.name}_encode_{name}(command, &a); }}"])

    def _entries(self):
        """By name of a structure, the fields of an entry of a table."""
        return {"instruction": instruction_fields(), "stream": stream_fields(self.view.limits)}

    def _entry_encoder(self, name, fields) -> str:
        lines = [f"int c_encode_{name}(uint8_t *entry, const uint64_t *values) {{"]
        lines += [f"{self.view.name}_{name} a;"]
        for place, field in enumerate(fields):
            cast = "" if field.bits > 32 else "(uint32_t)"
            lines.append(f"a.{field.name} = {cast}values[{place}];")
        return " ".join([*lines, f"return {self.view.name}_encode_{name}(entry, &a); }}"])

    def encode_entry(self, name: str, length: int, values: dict[str, int]) -> tuple[bytes, int]:
        """An ``instruction`` or a ``stream`` of so many bytes, and whether a value was too wide."""
        fields = self._entries()[name]
        assert set(values) <= {field.name for field in fields}
        entry = (c_uint8 * length)(*[0xFF] * length)
        given = (c_uint64 * len(fields))(*(values.get(field.name, 0) for field in fields))
        function = getattr(self._library, f"c_encode_{name}")
        function.argtypes = (POINTER(c_uint8), POINTER(c_uint64))
        wide = function(entry, given)
        return bytes(entry), wide

    def instruction_of(self, op: int) -> bytes:
        """That of an operation, encoded."""
        entry = (c_uint8 * 8)()
        function = self._library.c_instruction_of
        function.argtypes = (POINTER(c_uint8), c_uint32)
        assert function(entry, op) == 0
        return bytes(entry)

    def encode(self, opcode: Opcode, values: dict[str, int]) -> tuple[bytes, int]:
        """The command, and whether a value was too wide."""
        command = (c_uint8 * 64)(*[0xFF] * 64)
        fields = self.view.arguments(opcode)
        given = (c_uint64 * len(fields))(*(values.get(field.name, 0) for field in fields))
        function = getattr(self._library, f"c_encode_{opcode.name.lower()}")
        function.argtypes = (POINTER(c_uint8), POINTER(c_uint64))
        wide = function(command, given)
        return bytes(command), wide


def port_of(registers, wait_irq=None) -> Port:
    """A port at an object with ``read`` and ``write``."""
    return Port(
        context=None,
        read=READ(lambda _, offset: registers.read(offset)),
        write=WRITE(lambda _, offset, value: registers.write(offset, value)),
        wait_irq=WAIT(0) if wait_irq is None else WAIT(lambda _: wait_irq()),
    )
