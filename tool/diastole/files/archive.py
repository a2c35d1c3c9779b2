"""Read the arrays of a user's .npz file, on request.

The file may be damaged, or made to harm. Every byte is checked before its use, and no memory is
taken for data that is not present. No content is ever run: objects are refused.
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
"""Compression methods of numpy. Other methods could take gigabytes before the first byte."""

CHUNK_BYTES = 1 << 20
MAX_HEADER_BYTES = 10_000
"""Largest header, far more than the header of any array of numbers needs."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

# All errors of zipfile for a file that is no zip, or is damaged. NotImplementedError is a
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
    """An array cannot be read. The text says why, as the end of "cannot be read: "."""


@dataclass(frozen=True)
class Header:
    """Header of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool


class Archive:
    """An .npz file with arrays of these ``names``. Raises :class:`BadInput` if the file is no
    .npz."""

    def __init__(self, path: Path):
        self.path = path
        try:
            require_readable(path, pipes=False)
            with path.open("rb") as file, zipfile.ZipFile(file) as archive:
                members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        except FileNotFoundError:
            raise BadInput(f"{path}: there is no such file") from None
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or 'is not a .npz file'}") from None
        except _DAMAGE:
            raise BadInput(f"{path}: is not a .npz file") from None
        counts = Counter(each.filename for each in members)
        self._members = {each.filename.removesuffix(".npy"): each for each in members}
        self._repeated = {name for name in self._members if counts[f"{name}.npy"] > 1}
        self.names = list(self._members)

    def header(self, name: str) -> Header:
        """Return the header of an array, without memory for the claimed data."""
        return self._open(name, lambda _, header: header)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array as saved. Raises :class:`Unreadable`."""
        return self._open(name, _read_data)

    def _open(self, name: str, use: Callable[[IO[bytes], Header], T]) -> T:
        """Return ``use(file, header)`` for a member with a complete header."""
        if name in self._repeated:
            raise Unreadable("the file has more than one array of this name")
        member = self._members[name]
        if member.flag_bits & 1:
            raise Unreadable("the array is encrypted")
        if member.compress_type not in METHODS:
            raise Unreadable(
                f"the compression {_method(member)} is not a compression of numpy (stored "
                "or deflated)"
            )
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(member) as file:
                return use(file, _read_header(file, member.file_size))
        except _DAMAGE as error:
            raise Unreadable(" ".join(str(error).split()) or "the file ends early") from None


def _method(member: zipfile.ZipInfo) -> str:
    names: dict[int, str] = vars(zipfile)["compressor_names"]  # absent from typeshed
    return names.get(member.compress_type, f"method {member.compress_type}")


def _read_header(file: IO[bytes], member_bytes: int) -> Header:
    """Return the header, if the size of the remaining bytes of the member agrees with the
    header."""
    start = file.read(npy.MAGIC_LEN)
    if start[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX or len(start) < npy.MAGIC_LEN:
        raise Unreadable("the member is not a numpy array")
    version = (start[-2], start[-1])
    if version not in _HEADERS:
        raise Unreadable(f"the format {version[0]}.{version[1]} of the array is not known")
    field = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(field, "little")
    if length > MAX_HEADER_BYTES:
        raise Unreadable(f"the header of {length} bytes is too long")
    text = file.read(length)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings of old names in old files
            shape, fortran_order, dtype = _HEADERS[version](io.BytesIO(field + text))
    except Exception:  # any error of numpy's parser for a damaged header
        raise Unreadable("the header is damaged") from None
    if len(shape) > 64 or not all(0 <= axis <= sys.maxsize for axis in shape):
        raise Unreadable("the header is damaged")
    there = member_bytes - len(start) - len(field) - length
    if math.prod(shape) * dtype.itemsize != there and not dtype.hasobject:
        raise Unreadable(f"the array has {there} bytes of data, which does not match the header")
    return Header(dtype, shape, fortran_order)


def _read_data(file: IO[bytes], header: Header) -> NDArray[Any]:
    """Return the array. Read to the end of the member, where the checksum is compared."""
    if header.dtype.hasobject:
        raise Unreadable("the array holds Python objects, which are not loaded")
    data = bytearray()  # grows with the data present: the size of a member may be wrong too
    while chunk := file.read(CHUNK_BYTES):
        data += chunk
    order = "F" if header.fortran_order else "C"
    try:
        return np.ndarray(header.shape, header.dtype, data, order=order)
    except (TypeError, ValueError):
        raise Unreadable("the data and the header do not match") from None
