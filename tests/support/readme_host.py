"""A host that uses a product with the facts of its README alone."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np


def tables(text: str) -> dict[tuple[str, ...], list[list[str]]]:
    """By their heads, the rows of every table of Markdown."""
    found: dict[tuple[str, ...], list[list[str]]] = {}
    rows: list[list[str]] | None = None
    for line in map(str.strip, text.splitlines()):
        if not line.startswith("|"):
            rows = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if rows is None:
            rows = found.setdefault(tuple(cells), [])
        elif set(cells) != {"---"}:
            rows.append(cells)
    return found


@dataclass(frozen=True)
class ReadmeHost:
    """``text``: of the README."""

    text: str

    @cached_property
    def tables(self):
        return tables(self.text)

    def number(self, pattern: str) -> int:
        """The one number that a pattern's group has in the text."""
        found = set(re.findall(pattern, self.text))
        assert len(found) == 1, (pattern, found)
        return int(found.pop(), 0)

    @property
    def beat(self) -> int:
        return self.number(r"so a \*beat\* is (\d+)\s+bytes")

    @property
    def block(self) -> int:
        return self.number(r"With B = (\d+), RB")

    @cached_property
    def registers(self) -> dict[str, int]:
        """By name, the offset."""
        rows = self.tables["offset", "bits", "name", "access", "reset", "meaning"]
        return {row[2]: int(row[0], 0) for row in rows if row[0]}

    @cached_property
    def fields(self) -> dict[str, tuple[int, int]]:
        """By name, of a command's fields: the lowest bit and the number of bits."""
        found = {}
        for word, bits, name, *_ in self.tables["word", "bits", "field", "meaning", "used by"]:
            high, low = map(int, bits.split(":"))
            found[name] = 32 * int(word.split(",")[0]) + low, high - low + 1
        return found

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """By what is there, address and bytes."""
        rows = self.tables["address", "bytes", "row pitch", "content"]
        return {what: (int(address, 0), int(size)) for address, size, _, what in rows}

    @cached_property
    def pitches(self) -> dict[str, int]:
        rows = self.tables["address", "bytes", "row pitch", "content"]
        return {what.split()[0]: int(pitch) for _, _, pitch, what in rows if pitch}

    @cached_property
    def commands(self) -> list[bytes]:
        """The bytes of the commands."""
        rows = self.tables["word", "convert X", "convert W", "forward"]
        assert [int(row[0]) for row in rows] == list(range(16))
        return [
            b"".join(int(row[column], 0).to_bytes(4, "little") for row in rows)
            for column in (1, 2, 3)
        ]

    @cached_property
    def writes(self) -> list[tuple[int, int]]:
        """Offset and value of the register writes."""
        rows = self.tables["offset", "value", "register"]
        return [(int(at, 0), int(value, 0)) for at, value, _ in rows]

    def field(self, command: bytes, name: str) -> int:
        """Of a command, by the table of fields."""
        low, bits = self.fields[name]
        return int.from_bytes(command, "little") >> low & (1 << bits) - 1

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of X, W and Y."""
        m, k, again, n = map(
            int,
            re.search(r"X \((\d+) x (\d+)\) and W \((\d+) x (\d+)\)", self.text).groups(),
        )
        assert again == k
        return {"X": (m, k), "W": (k, n), "Y": (m, n)}

    def operand(self, name: str) -> np.ndarray:
        """X or W, by the words of the text."""
        row, column = np.indices(self.shapes[name])
        value = {"X": row + 2 * column, "W": 2 * row + column}[name]
        return (value % 3 - 1).astype(np.float32)

    def memory(self) -> dict[int, bytes]:
        """By address, what the host writes before the start."""
        found = {}
        for name in ("X", "W"):
            address, size = self.places[f"{name} as floats"]
            rows, columns = self.shapes[name]
            image = np.zeros((rows, self.pitches[name] // 4), np.float32)
            image[:, :columns] = self.operand(name)
            assert image.nbytes == size
            found[address] = image.tobytes()
        address, size = self.places["the three commands"]
        found[address] = b"".join(self.commands)
        assert len(found[address]) == size
        return found

    def result(self, read) -> np.ndarray:
        """Y; ``read(address, count)`` gives bytes of memory."""
        address, size = self.places["Y as floats"]
        rows, columns = self.shapes["Y"]
        return np.frombuffer(read(address, size), "<f4").reshape(rows, -1)[:, :columns]

    def dumped(self, what: str) -> bytes:
        """The bytes of an image, as the text has them."""
        address, size = self.places[what]
        head = rf"^{re.escape(what)}, {size} bytes from 0x{address:08X} on:\n\n((?: .*\n)+)"
        image = np.zeros(size, np.uint8)
        for line in re.search(head, self.text, re.MULTILINE)[1].splitlines():
            at, *values = line.split()
            image[int(at, 16) :][: len(values)] = [int(value, 16) for value in values]
        return image.tobytes()


@dataclass(frozen=True)
class ReadmeImage:
    """An image of ``shape``, as it is stored, by the formulas of the README and the row of its
    class."""

    host: ReadmeHost
    row: list[str]
    shape: tuple[int, int]

    @property
    def parts(self) -> dict[str, int]:
        """b, H, E, L, P and F."""
        heads = ("b", "H", "E", "L", "P", "F")
        return dict(zip(heads, map(int, self.row[-6:]), strict=True))

    def places(self) -> dict[str, int]:
        """Pitch and offsets, as the text has them."""
        side, beat, p = self.host.block, self.host.beat, self.parts
        up = lambda n: -(-n // beat) * beat  # noqa: E731
        rows, columns = (-(-length // side) for length in self.shape)
        pitch = -(-columns // 8) * (p["E"] + p["L"])
        row_max = p["H"] + rows * pitch
        col_max = row_max + up(rows * p["P"])
        return {
            "pitch": pitch,
            "row_max": row_max,
            "col_max": col_max,
            "size": col_max + up(columns * p["F"]),
        }

    def element(self, image: bytes, r: int, c: int) -> tuple[int, int, int, int, int]:
        """Magnitude code, sign, and the block in its group, its row and its group's offset."""
        side, p = self.host.block, self.parts
        group, block = c // side // 8, c // side % 8
        at = p["H"] + r // side * self.places()["pitch"] + group * (p["E"] + p["L"])
        bit = 8 * (at + p["E"]) + ((block * side + r % side) * side + c % side) * p["b"]
        code = int.from_bytes(image, "little") >> bit & (1 << p["b"]) - 1
        return code & (1 << p["b"] - 1) - 1, code >> p["b"] - 1, block, r % side, at
