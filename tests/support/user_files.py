"""Files that the tables of refusals name: those of a user who is about to make a mistake."""

from pathlib import Path

import numpy as np

from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY

ONE_CELL = """library (my) {
cell (NAND) { area : 2; pin (Y) { direction : output; function : "!(A&B)"; max_capacitance : 1pF; }
pin (A) { direction : input; } pin (B) { direction : input; } } }
"""
TEXTS = {
    "nano.toml": to_toml(PRODUCTS_ONLY["nano"]),
    "my.lib": ONE_CELL,
    "layers.csv": "name,M,K,N\na,8,8,8\n",
    "long.csv": "name,M,K,N\nlong,9000000,1,1\nshort,1,1,1\n",
    "plan.toml": "sede = [1]\nseeds = [0]\nover = {format = ['bfp4']}\n",
    "digit.toml": "task = 'digit'\nover = {format = ['bfp4']}\n",
    "nona.toml": "preset = 'nona'\nover = {format = ['bfp4']}\n",
    "absent.toml": "machine = 'no.toml'\nover = {format = ['bfp4']}\n",
    "wrong_set.toml": "set = {format = 'bfp9'}\nover = {rounding.bits = [3, 4]}\n",
    "mark.toml": '\ufeffname = "a"\n',
}


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


ARRAYS = {
    "a.npz": {"X": ones(3, 5), "W": ones(5, 7), "dY": ones(3, 7)},
    "small.npz": {"x": ones(3, 5), "w": ones(5, 7)},
    "x.npz": {"X": ones(3, 5)},
    "other_k.npz": {"X": ones(3, 5), "W": ones(6, 7)},
    "empty.npz": {"X": ones(3, 0), "W": ones(0, 7)},
    "long.npz": {"X": ones(9, 512), "W": ones(512, 3)},
    "nothing.npz": {},
    "no_matrix.npz": {"ids": np.ones((2, 2), np.int8), "bias": np.ones(3)},
    "k_differs.npz": {"X": ones(2, 3), "W": ones(4, 5)},
    "m_differs.npz": {"X": ones(2, 3), "dY": ones(3, 3)},
    "complex.npz": {"X": ones(2, 2), "W": ones(2, 2) * 1j},
    "text.npz": {"X": ones(2, 2), "W": np.array([["1"]])},
    "dates.npz": {"X": ones(2, 2), "dY": np.array([["2026-01-01"]], "datetime64[D]")},
    "objects.npz": {"X": ones(2, 2), "W": np.array(None)},
    "vector.npz": {"X": ones(4)},
    "no_rows.npz": {"X": ones(0, 4)},
    "twice.npz": {"X": ones(2, 2), "x": ones(2, 2)},
    "inf.npz": {"X": np.full((8, 8), np.inf), "W": ones(8, 8)},
    "broken.npz": {"X": np.full((2, 2), -0.25, np.float32)},
}


def write_files(folder: Path, words: list[str]) -> None:
    """Write the files that ``words`` name, and a folder with a file in it."""
    (folder / "folder.vcd").mkdir(exist_ok=True)
    (folder / "folder.vcd" / "precious").write_text("mine")
    for name in words:
        if name in TEXTS:
            (folder / name).write_text(TEXTS[name])
        elif name in ARRAYS:
            np.savez(folder / name, **ARRAYS[name])
    if "broken.npz" in words:  # a bit of the content is wrong: the checksum tells
        content = bytearray((folder / "broken.npz").read_bytes())
        content[content.index(np.float32(-0.25).tobytes())] ^= 1
        (folder / "broken.npz").write_bytes(content)
