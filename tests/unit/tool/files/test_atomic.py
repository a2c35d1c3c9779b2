"""Files are there whole or not at all; links, FIFOs and devices stay what they are."""

import errno
import io
import os
import stat
import subprocess
import sys
import threading
import zipfile

import pytest

from diastole.errors import BadInput
from diastole.files import atomic


def content(data=b"new"):
    return lambda file: file.write(data)


def refusal(function, *arguments):
    with pytest.raises(BadInput) as caught:
        function(*arguments)
    (problem,) = caught.value.problems
    return problem


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def umask():
    """Sets the process's umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def test_a_new_file_and_nothing_beside_it(tmp_path):
    atomic.replace(tmp_path / "a", content())
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0, 0o666)])
@pytest.mark.parametrize("write", [atomic.replace, atomic.create])
def test_a_new_file_has_the_permissions_of_any(tmp_path, umask, write, mask, mode):
    umask(mask)
    write(tmp_path / "a", content())
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_replaced_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    atomic.replace(path, content())
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_reader_has_the_old_file_to_its_end(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        atomic.replace(path, content())
        assert reader.read() == b"old"


def test_a_name_as_long_as_they_get(tmp_path):
    path = tmp_path / ("a" * 255)
    atomic.replace(path, content())
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("target", ["elsewhere/real", "elsewhere/new"])
def test_a_link_stays_and_its_target_is_written(tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").write_bytes(b"old")
    second = tmp_path / "second"
    second.symlink_to(target)
    first = tmp_path / "first"
    first.symlink_to("second")
    atomic.check_writable(first)
    atomic.replace(first, content())
    assert (first.readlink(), second.readlink()) == (
        second.relative_to(tmp_path),
        type(first)(target),
    )
    assert (tmp_path / target).read_bytes() == b"new"
    assert names(tmp_path) == ["elsewhere", "first", "second"]


def test_a_link_to_itself(tmp_path):
    path = tmp_path / "a"
    path.symlink_to("a")
    for function in (lambda: atomic.replace(path, content()), lambda: atomic.check_writable(path)):
        assert refusal(function) == f"{path}: {os.strerror(errno.ELOOP)}"


@pytest.mark.parametrize("link", [False, True])
def test_a_folder(tmp_path, link):
    path = tmp_path / "a"
    path.mkdir()
    if link:
        path = tmp_path / "b"
        path.symlink_to("a")
    assert refusal(atomic.replace, path, content()) == f"{path}: is a directory"
    assert refusal(atomic.check_writable, path) == f"{path}: is a directory"


@pytest.mark.parametrize("link", [False, True])
def test_a_fifo_gets_the_bytes(tmp_path, link):
    fifo = path = tmp_path / "fifo"
    os.mkfifo(fifo)
    if link:
        path = tmp_path / "link"
        path.symlink_to("fifo")
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    atomic.check_writable(path)
    atomic.replace(path, zip_of("member"))
    reader.join(10)
    assert zipfile.ZipFile(io.BytesIO(got[0])).namelist() == ["member"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def zip_of(name):
    """Writes an archive, which goes back in its file."""

    def write(file):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, b"content")

    return write


def test_a_failed_write_sends_nothing(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def write(file):
        file.write(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        atomic.replace(fifo, write)  # would wait for a reader for ever if it opened the FIFO


def test_a_terminal_stays(tmp_path):
    """The one character device that every user may make."""
    leader, follower = os.openpty()
    path = tmp_path / "terminal"
    path.symlink_to(os.ttyname(follower))
    try:
        atomic.check_writable(path)
        atomic.replace(path, content(b"text"))
        assert os.read(leader, 100) == b"text"
        assert stat.S_ISCHR(path.stat().st_mode)
    finally:
        os.close(leader)
        os.close(follower)


def test_a_device_stays(tmp_path):
    """A null device of this test's own, where it may make one; see the terminal for elsewhere."""
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.open("wb").close()
    except PermissionError:
        pytest.skip("only root makes devices, and not everywhere")
    atomic.replace(path, zip_of("member"))
    assert stat.S_ISCHR(path.stat().st_mode)
    assert names(tmp_path) == ["null"]


def test_a_socket_is_refused(tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        path = tmp_path / "socket"
        text = f"{path}: is neither a file, nor a FIFO or a character device"
        assert refusal(atomic.replace, path, content()) == text
        assert refusal(atomic.check_writable, path) == text


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_in_a_file_goes_on(tmp_path, name):
    """What was said before and what is said after stay, though the output is a regular file."""
    code = (
        "import sys; from pathlib import Path; from diastole.files import atomic\n"
        "print('before'); atomic.replace(Path(sys.argv[1]), lambda f: f.write(b'new\\n'))\n"
        "print('after')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code, name], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\nnew\nafter\n"


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("writer", [atomic.replace, atomic.create])
def test_a_full_disk(tmp_path, monkeypatch, writer, call):
    path = tmp_path / "a"
    if writer is atomic.replace:
        path.write_bytes(b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    problem = refusal(writer, path, full if call == "write" else content())
    assert problem == f"{path}: No space left on device"
    assert names(tmp_path) == (["a"] if writer is atomic.replace else [])
    if writer is atomic.replace:
        assert path.read_bytes() == b"old"


@pytest.mark.parametrize("there", ["file", "folder", "dangling link"])
def test_create_never_replaces(tmp_path, there):
    path = tmp_path / "a"
    if there == "file":
        path.write_bytes(b"old")
    elif there == "folder":
        path.mkdir()
    else:
        path.symlink_to("nothing")
    with pytest.raises(FileExistsError):
        atomic.create(path, content())
    assert names(tmp_path) == ["a"]
    assert there != "file" or path.read_bytes() == b"old"


def test_create_beside_one_who_is_faster(tmp_path):
    """The file appears while ours is being written."""
    path = tmp_path / "a"

    def write(file):
        file.write(b"ours")
        path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        atomic.create(path, write)
    assert path.read_bytes() == b"theirs"
    assert names(tmp_path) == ["a"]


def test_where_no_file_can_be(tmp_path, monkeypatch):
    path = tmp_path / "no" / "a"
    assert refusal(atomic.check_writable, path) == f"{path}: there is no folder {path.parent}"
    assert refusal(atomic.replace, path, content()) == f"{path}: No such file or directory"
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "a"
    assert refusal(atomic.check_writable, path) == f"{path}: Not a directory"
    path = tmp_path / "link"
    path.symlink_to("no/a")
    folder = tmp_path / "no"
    assert refusal(atomic.check_writable, path) == f"{path}: there is no folder {folder}"


@pytest.mark.parametrize("what", ["a", "."])
def test_what_is_protected(tmp_path, monkeypatch, what):
    """``access`` is asked, since root may write everywhere."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    protected = (tmp_path / what).resolve()
    monkeypatch.setattr(os, "access", lambda path, _: path.resolve() != protected)
    words = {"a": "is not writable", ".": f"the folder {tmp_path} is not writable"}
    assert refusal(atomic.check_writable, path) == f"{path}: {words[what]}"
