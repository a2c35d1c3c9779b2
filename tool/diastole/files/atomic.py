"""Write files completely or not at all. A pipe or a device is written to, never replaced."""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO

from diastole.errors import BadInput

Write = Callable[[BinaryIO], object]

# Folder of the open files of a process, to which /dev/stdout and /dev/fd/3 are links.
_DESCRIPTORS = "/proc/self/fd"


def replace(path: Path, write: Write) -> None:
    """Let ``write`` fill a file beside ``path``, and rename the file. An interrupted run leaves the
    old file.

    A symbolic link stays: the target of the link is replaced. The permissions of the target stay. A
    FIFO, a terminal or another character device gets the bytes once all bytes are written.
    :class:`BadInput` naming ``path`` if the file cannot be written.
    """
    with _naming(path):
        status = _status(path)
        if _is_stream(path, status):
            _stream(path, write)
            return
        mode = None if status is None else stat.S_IMODE(status.st_mode)
        with _temporary_file(_real(path), write, mode) as temporary:
            temporary.replace(_real(path))


def create(path: Path, write: Write) -> None:
    """Write as :func:`replace` does, where no file exists yet. FileExistsError if a file exists.

    The name is taken after all bytes are written: a full disk leaves nothing behind.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _naming(path), _temporary_file(path, write, None) as temporary:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # takes the name
        temporary.replace(path)


def check_writable(path: Path) -> None:
    """Raise :class:`BadInput` if :func:`replace` surely cannot write to ``path``."""
    with _naming(path):
        status = _status(path)
        stream = _is_stream(path, status)
        if status is not None and not os.access(path, os.W_OK):
            raise BadInput(f"{path}: is not writable")
        if stream:
            return
        folder = _real(path).parent
        if not folder.is_dir():
            raise BadInput(f"{path}: there is no folder {folder}")
        if not os.access(folder, os.W_OK):
            raise BadInput(f"{path}: the folder {folder} is not writable")


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the target of ``path``; None if no file exists yet."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_stream(path: Path, status: os.stat_result | None) -> bool:
    """Return whether bytes are sent to ``path``, as to a pipe or a device. BadInput if ``path`` is
    neither a stream nor a file."""
    if status is None:
        return False
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise BadInput(f"{path}: is a directory")
    if kind not in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFCHR):
        raise BadInput(f"{path}: is neither a file, nor a FIFO or a character device")
    return kind != stat.S_IFREG or _descriptor(path) is not None


def _real(path: Path) -> Path:
    """Return the place of the file after all links; ``path`` unchanged if no link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _descriptor(path: Path) -> int | None:
    """Return the open file that ``path`` is a name of, as /dev/stdout and /dev/fd/3 are. None for
    other paths."""
    own = os.path.realpath(_DESCRIPTORS)
    while path.is_symlink():
        if os.path.realpath(path.parent) == own:
            return int(path.name)
        path = path.parent / path.readlink()
    return None


@contextlib.contextmanager
def _temporary_file(path: Path, write: Write, mode: int | None) -> Generator[Path]:
    """Yield the complete file under another name in the folder of ``path``. The file is removed at
    the end, unless renamed. ``mode``: permissions of the file, None for the permissions of any new
    file."""
    temporary = path.with_name(f".diastole-{secrets.token_hex(8)}")  # fits where the name is long
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # less the umask
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            if mode is not None:
                with contextlib.suppress(PermissionError):  # some file systems have no modes
                    os.fchmod(handle, mode)
            os.fsync(handle)  # a disk may notice that it is full only now
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _stream(path: Path, write: Write) -> None:
    """Write all bytes at once. ``write`` may seek in its file, and may fail."""
    with tempfile.TemporaryFile() as whole:
        write(whole)
        whole.seek(0)
        descriptor = _descriptor(path)
        if descriptor == 1 and sys.stdout is not None:
            sys.stdout.flush()  # earlier output stays first
        with path.open("wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb") as file:
            shutil.copyfileobj(whole, file)


@contextlib.contextmanager
def _naming(path: Path) -> Generator[None]:
    """Raise errors of the system as errors of ``path``, without the name of a temporary file."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
