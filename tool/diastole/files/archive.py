"""The arrays of a user's .npz file, each read when it is asked for.

The file may be damaged, or made to harm: no byte of it is believed before it is checked, and no
memory is taken for data that is not there. Nothing in it is ever run, so objects are refused.
"""

import io
import math
import struct
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from diastole.errors import BadInput
from diastole_sim.reading import require_readable

T = TypeVar("T")

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes. The others could ask for gigabytes before they give a byte."""

CHUNK_BYTES = 1 << 20
MAX_HEADER_BYTES = 10_000
"""Far more than the header of any array of numbers has."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

# All that zipfile raises for a file that is no zip, or is damaged; NotImplementedError is a
# RuntimeError.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    ArithmeticError,
    LookupError,
    MemoryError,
)


class Unreadable(Exception):
    """An array cannot be read; the text says why, to be put behind "cannot be read: "."""


@dataclass(frozen=True)
class Header:
    """What an array says of itself."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool


class Archive:
    """``names``: of the arrays. Raises :class:`BadInput` if the file is no .npz."""

    def __init__(self, path: Path):
        self.path = path
        try:
            require_readable(path, pipes=False)
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or 'is no .npz file'}") from None
        except _DAMAGE:
            raise BadInput(f"{path}: is no .npz file") from None
        counts = Counter(each.filename for each in members)
        self._members = {each.filename.removesuffix(".npy"): each for each in members}
        self._repeated = {name for name in self._members if counts[f"{name}.npy"] > 1}
        self.names = list(self._members)

    def header(self, name: str) -> Header:
        """Of one of the arrays; takes no memory for what it claims to hold."""
        return self._open(name, lambda _, header: header)

    def read(self, name: str) -> NDArray[Any]:
        """One of the arrays, as it was saved. Raises :class:`Unreadable`."""
        return self._open(name, _read_data)

    def _open(self, name: str, use: Callable[[IO[bytes], Header], T]) -> T:
        """``use(file, header)`` of a member that is whole as far as its header."""
        if name in self._repeated:
            raise Unreadable("the file has more than one of this name")
        member = self._members[name]
        if member.flag_bits & 1:
            raise Unreadable("it is encrypted")
        if member.compress_type not in METHODS:
            raise Unreadable(
                f"its compression, {_method(member)}, is none of numpy's (stored or deflated)"
            )
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(member) as file:
                return use(file, _read_header(file, member.file_size))
        except _DAMAGE as error:
            raise Unreadable(" ".join(str(error).split()) or "the file ends early") from None


def _method(member: zipfile.ZipInfo) -> str:
    names: dict[int, str] = vars(zipfile)["compressor_names"]  # typeshed does not know it
    return names.get(member.compress_type, f"method {member.compress_type}")


def _read_header(file: IO[bytes], member_bytes: int) -> Header:
    """The header, if the rest of the member's bytes is what it promises."""
    start = file.read(npy.MAGIC_LEN)
    if start[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX or len(start) < npy.MAGIC_LEN:
        raise Unreadable("it is no array of numpy's")
    version = (start[-2], start[-1])
    if version not in _HEADERS:
        raise Unreadable(f"its format, {version[0]}.{version[1]}, is not known")
    field = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(field, "little")
    if length > MAX_HEADER_BYTES:
        raise Unreadable(f"its header of {length} bytes is too long")
    text = file.read(length)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old names in old files
            shape, fortran_order, dtype = _HEADERS[version](io.BytesIO(field + text))
    except Exception:  # of numpy's parser of Python; of whatever was written there
        raise Unreadable("its header is damaged") from None
    if len(shape) > 64 or not all(0 <= axis <= sys.maxsize for axis in shape):
        raise Unreadable("its header is damaged")
    there = member_bytes - len(start) - len(field) - length
    if math.prod(shape) * dtype.itemsize != there and not dtype.hasobject:
        raise Unreadable(f"it has {there} bytes of data, not what its header says")
    return Header(dtype, shape, fortran_order)


def _read_data(file: IO[bytes], header: Header) -> NDArray[Any]:
    """To the end of the member, where its checksum is compared."""
    if header.dtype.hasobject:
        raise Unreadable("it holds Python objects, which are not loaded")
    data = bytearray()  # grows with what is really there: the size of a member may be a lie too
    while chunk := file.read(CHUNK_BYTES):
        data += chunk
    order = "F" if header.fortran_order else "C"
    try:
        return np.ndarray(header.shape, header.dtype, data, order=order)
    except (TypeError, ValueError):
        raise Unreadable("its data and its header do not fit") from None
