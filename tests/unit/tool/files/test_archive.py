"""A user's .npz: every array that numpy can save, and everything that it may be instead."""

import io
import os
import resource
import struct
import zipfile

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.files import tensors
from diastole.files.archive import Archive, Unreadable
from diastole.files.matrices import read_matrices

NUMERICS = PRODUCTS_ONLY["nano"].numerics
GOOD = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def npy(shape, descr="<f4", data=b"", version=(1, 0), fortran="False", text=None):
    """A member as numpy lays it out, of any header."""
    if text is None:
        text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text = text.encode("latin1") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def archive(tmp_path):
    """``archive(X=bytes)`` writes a zip of such members and returns its path."""

    def write(*repeated, method=zipfile.ZIP_DEFLATED, **members):
        path = tmp_path / "a.npz"
        with zipfile.ZipFile(path, "w", method) as file:
            for name, content in (*members.items(), *repeated):
                file.writestr(f"{name}.npy", content)
        return path

    return write


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array",
    [
        GOOD,
        np.asfortranarray(GOOD),
        GOOD.astype(">f8"),
        GOOD[::2, ::-1],
        np.float16(3),
        np.zeros((0, 3)),
        np.array("mxfp8_e4m3 1x32"),
        np.array(""),
        np.arange(2 * 3 * 5 * 7, dtype="<i8").reshape(2, 3, 5, 7),
        np.zeros(3, [("a", "i4"), ("b", "f8", (2,))]),
        np.ones((700, 700)),  # more than is read at a time
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_as_numpy_saves_them(tmp_path, save, array):
    save(tmp_path / "a.npz", X=array, other=GOOD)
    archive = Archive(tmp_path / "a.npz")
    assert archive.names == ["X", "other"]
    header = archive.header("X")
    assert (header.dtype, header.shape) == (array.dtype, array.shape)
    got = archive.read("X")
    assert got.dtype == array.dtype
    assert got.flags.fnc == array.flags.fnc or 1 in array.strides
    np.testing.assert_array_equal(got, array)


def test_names_are_those_of_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("readme.txt", "no array")
        file.writestr("ü.npy", saved(GOOD))
    assert Archive(tmp_path / "a.npz").names == ["ü"]


def test_an_old_header_of_two(archive):
    """Python 2 wrote integers as 3L."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }"
    path = archive(X=npy(None, text=text, data=GOOD.tobytes()))
    np.testing.assert_array_equal(Archive(path).read("X"), GOOD)


def test_a_header_of_version_2(archive):
    path = archive(X=npy((3, 4), version=(2, 0), data=GOOD.tobytes()))
    np.testing.assert_array_equal(Archive(path).read("X"), GOOD)


TOO_FEW = "the array has 48 bytes of data, which does not match the header"
DAMAGED = {
    "no array": (b"hello", "the member is not a numpy array"),
    "empty": (b"", "the member is not a numpy array"),
    "only a magic": (b"\x93NUMPY", "the member is not a numpy array"),
    "version": (npy((3, 4), version=(9, 7)), "the format 9.7 of the array is not known"),
    "length of the header": (
        b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
        "the header of 2147483647 bytes is too long",
    ),
    "cut in the header": (npy((3, 4))[:30], "the header is damaged"),
    "no dictionary": (npy(None, text="[1]"), "the header is damaged"),
    "no Python": (npy(None, text="{'descr': '<f4'"), "the header is damaged"),
    "deep": (npy(None, text="(" * 4000), "the header is damaged"),
    "backslash": (npy(None, text="'\\d'"), "the header is damaged"),
    "no type": (npy((3, 4), descr="<q9"), "the header is damaged"),
    "negative": (npy((-3, -4), data=GOOD.tobytes()), "the header is damaged"),
    "no integers": (npy("(3, 4.0)", data=GOOD.tobytes()), "the header is damaged"),
    "huge axis": (npy((10**3000, 0)), "the header is damaged"),
    "axes": (npy((1,) * 65, data=b"1234"), "the header is damaged"),
    "empty and huge": (npy((0, 2**60, 2**60)), "the data and the header do not match"),
    "petabytes": (npy((10**12, 10**3), data=GOOD.tobytes()), TOO_FEW),
    "one row too many": (npy((4, 4), data=GOOD.tobytes()), TOO_FEW),
    "one row too few": (npy((2, 4), data=GOOD.tobytes()), TOO_FEW),
    "wider": (npy((3, 4), descr="<f8", data=GOOD.tobytes()), TOO_FEW),
    "object": (
        saved(np.array([["a", None]], dtype=object)),
        "the array holds Python objects, which are not loaded",
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_members(archive, what):
    content, reason = DAMAGED[what]
    with pytest.raises(Unreadable) as caught:
        Archive(archive(X=content)).read("X")
    assert str(caught.value) == reason


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(archive, method):
    name = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma"}[method]
    with pytest.raises(Unreadable) as caught:
        Archive(archive(X=saved(GOOD), method=method)).read("X")
    assert str(caught.value) == (
        f"the compression {name} is not a compression of numpy (stored or deflated)"
    )


def patched(path, *changes):
    """Changes fields of the one member, by offset in its local header and in the directory."""
    data = bytearray(path.read_bytes())
    local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
    for where, offset, value in changes:
        start = {"local": local, "central": central}[where] + offset
        data[start : start + len(value)] = value
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "changes, reason",
    [
        (
            [("local", 6, b"\x01\x00"), ("central", 8, b"\x01\x00")],
            "the array is encrypted",
        ),
        (
            [("local", 8, b"\x61\x00"), ("central", 10, b"\x61\x00")],
            "the compression wavpack is not a compression of numpy (stored or deflated)",
        ),
        ([("central", 16, b"\x00\x00\x00\x00")], "Bad CRC-32 for file 'X.npy'"),
        (
            # a size that lies, and agrees with a header that lies as well
            [("central", 24, struct.pack("<I", 2**31))],
            f"the array has {2**31 - 128} bytes of data, which does not match the header",
        ),
    ],
    ids=["encrypted", "method", "checksum", "size"],
)
def test_damaged_directories(archive, changes, reason):
    with pytest.raises(Unreadable) as caught:
        Archive(patched(archive(X=saved(GOOD)), *changes)).read("X")
    assert str(caught.value) == reason


def test_sizes_that_agree_in_a_lie(archive):
    """A gigabyte by the header and by the directory, and a few bytes of content."""
    start = npy((2**28,))
    path = archive(X=start + b"1234", method=zipfile.ZIP_STORED)
    size = struct.pack("<I", len(start) + 2**30)
    path = patched(path, ("central", 24, size), ("central", 20, size))
    before = peak_bytes()
    with pytest.raises(Unreadable):
        Archive(path).read("X")
    assert peak_bytes() - before < 100 << 20


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_twice_the_same_name(archive):
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = archive(("X", saved(GOOD)), X=saved(2 * GOOD), W=saved(GOOD))
    archive = Archive(path)
    assert archive.names == ["X", "W"]
    with pytest.raises(Unreadable, match=r"^the file has more than one array of this name$"):
        archive.read("X")
    np.testing.assert_array_equal(archive.read("W"), GOOD)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04", saved(GOOD), b"PK\x05\x06" * 9])
def test_no_archive(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        Archive(path)
    assert caught.value.problems == (f"{path}: is not a .npz file",)


def test_a_file_that_goes_away(tmp_path):
    np.savez(tmp_path / "a.npz", X=GOOD)
    archive = Archive(tmp_path / "a.npz")
    (tmp_path / "a.npz").unlink()
    with pytest.raises(Unreadable, match="No such file or directory"):
        archive.read("X")


def refusal(read):
    """The lines about a file; none if it could be read."""
    try:
        read()
    except BadInput as error:
        return error.problems
    return ()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["bits", "bytes", "cut", "gap", "directory"])
@pytest.mark.sampled(2)
def test_damage_anywhere(tmp_path, rng, save, kind):
    """Valid files with some bytes changed: read as they were, or refused; nothing else happens,
    and no more memory is taken than a few times what the file has."""
    path = tmp_path / "a.npz"
    save(path, X=GOOD, W=GOOD.T, dY=np.ones((3, 3), np.float32))
    whole = path.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    before, refused = peak_bytes(), 0
    for case in range(120):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            place = rng.randrange(directory if kind == "directory" else 0, len(data))
            if kind in ("bits", "directory"):
                data[place] ^= 1 << rng.randrange(8)
            elif kind == "bytes":
                data[place] = rng.choice((0, 255, rng.randrange(256)))
            elif kind == "gap":
                del data[place : place + rng.randint(1, 20)]
        if kind == "cut":
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        for read in (
            lambda: tensors.read_tensors(path, "backward", NUMERICS),
            lambda: read_matrices(path),
        ):
            lines = refusal(read)
            refused += bool(lines)
            assert all(str(path) in line and "\n" not in line for line in lines), case
    assert refused > 20
    assert peak_bytes() - before < 100 << 20


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_may_have_no_end(tmp_path, kind):
    path = tmp_path / "a.npz"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(BadInput, match=r"a\.npz: is not a regular file$"):
        Archive(path)
