"""Cache of folders that can be made again: checked, bounded, shared by processes.

Statements about processes hold for threads too. Two empty lock files lie beside an entry ``KEY``.
The system releases the locks even if a process is killed. Every user of the entry holds
``KEY.use``, so that no process removes the entry. The maker of the entry holds ``KEY.lock``, and
makes the entry in ``making-KEY``. Both files are removed with the entry.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

RECORD = "record.json"
LIMIT = 64
MAKING = "making-"

_locks: dict[Path, int] = {}
"""Descriptors of locked files. The process shares the locks until the end of the process."""
_holding = threading.Lock()


def user_folder() -> Path:
    """Return ``$XDG_CACHE_HOME/diastole``, or ``~/.cache/diastole``. OSError if neither exists."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            raise OSError("there is no home folder; set XDG_CACHE_HOME to a folder") from None
    return base / "diastole"


def say_on_stderr(text: str) -> None:
    print(f"diastole: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Cache:
    """Cache of at most ``limit`` entries in ``folder``, besides entries in use. The least recently
    used entries are removed.

    An entry is a folder with a record of the sizes and SHA-256 of the files. Every :meth:`get`
    checks the entry by the record. ``say`` is called for a damaged entry.
    """

    folder: Path
    limit: int = LIMIT
    say: Callable[[str], None] = say_on_stderr

    def get(self, key: str, make: Callable[[Path], object]) -> Path:
        """Return the folder of an entry. If the entry is missing or damaged, ``make(folder)`` fills
        an empty folder. The entry appears whole, and stays as long as the process runs.

        Users of the same entry wait until the entry is made. If ``make`` raises an error, nothing
        is left.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        _hold(self.folder / f"{key}.use")
        entry = self.folder / key
        if damage(entry) is not None:
            with _locked(self.folder / f"{key}.lock") as free:
                assert free
                problem = damage(entry)  # a process that had the lock may have mended the entry
                if problem is not None:
                    self._make(key, problem, make)
        with contextlib.suppress(OSError):  # damaged in the meantime, and being mended
            os.utime(entry / RECORD)
        return entry

    def _make(self, key: str, damage_text: str, make: Callable[[Path], object]) -> None:
        self._collect()
        entry, new = self.folder / key, self.folder / f"{MAKING}{key}"
        shutil.rmtree(new, ignore_errors=True)  # left by a killed process
        if entry.exists():
            self.say(f"{entry} is damaged ({damage_text}) and is generated again")
            _remove(entry, new)
        new.mkdir()
        try:
            make(new)
            (new / RECORD).write_text(json.dumps(_contents(new), indent=1) + "\n")
            new.rename(entry)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._bound()

    def _collect(self) -> None:
        """Remove folders of killed processes."""
        for path in self.folder.glob(f"{MAKING}*"):
            with _locked(
                self.folder / f"{path.name.removeprefix(MAKING)}.lock", wait=False
            ) as free:
                if free:
                    shutil.rmtree(path, ignore_errors=True)

    def _bound(self) -> None:
        entries = sorted(self._entries(), key=lambda entry: _changed(entry / RECORD))
        excess = len(entries) - self.limit
        for entry in entries:
            if excess <= 0:
                return
            excess -= self._evict(entry)

    def _evict(self, entry: Path) -> bool:
        """Remove an entry and return True, or return False if the entry is in use."""
        locks = [entry.with_name(f"{entry.name}.{kind}") for kind in ("use", "lock")]
        with _locked(locks[0], wait=False) as unused:
            if not unused:
                return False
            with _locked(locks[1], wait=False) as free:
                if not free:
                    return False
                if entry.exists():  # else another process was faster
                    _remove(entry, self.folder / f"{MAKING}{entry.name}")
                for path in locks:
                    path.unlink(missing_ok=True)
        return True

    def _entries(self) -> list[Path]:
        records = self.folder.glob(f"*/{RECORD}")
        return [path.parent for path in records if not path.parent.name.startswith(MAKING)]

    @property
    def usage(self) -> tuple[int, int]:
        """Number of entries, and bytes of all files in the folder."""
        return len(self._entries()), sum(map(_size, self.folder.rglob("*")))


def damage(entry: Path) -> str | None:
    """Return a description of the damage to an entry. None if the entry is undamaged."""
    try:
        files = json.loads((entry / RECORD).read_text())
        for name, made in files.items():
            if not (entry / name).is_file():
                return f"{name} is missing"
            if _size(entry / name) != made["bytes"]:
                return f"{name} has {_size(entry / name)} bytes, not {made['bytes']}"
            if _sha256(entry / name) != made["sha256"]:
                return f"{name} is altered"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"{RECORD} or a file of it cannot be read: {error}"
    return None


def _contents(entry: Path) -> dict[str, dict[str, int | str]]:
    files = sorted(path for path in entry.rglob("*") if path.is_file())
    return {
        str(path.relative_to(entry)): {"bytes": _size(path), "sha256": _sha256(path)}
        for path in files
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 for a path that is no file, or is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _changed(path: Path) -> float:
    """Return the time of the last change in seconds; the present time if the file is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return time.time()


def _remove(entry: Path, aside: Path) -> None:
    """Move an entry aside in a single step, then remove it. All processes see the whole entry or
    nothing."""
    shutil.rmtree(aside, ignore_errors=True)
    entry.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _hold(path: Path) -> None:
    """Share the lock of a file from now until the process ends."""
    with _holding:
        lock = _locks.get(path)
        if lock is not None and _is_at(lock, path):
            return
        shared = _lock(path, fcntl.LOCK_SH)
        assert shared is not None
        if lock is not None:
            os.close(lock)
        _locks[path] = shared


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Generator[bool]:
    """Hold the lock of a file during the block. With ``wait`` False, yield False if the lock is
    taken."""
    file = _lock(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    if file is None:
        yield False
        return
    try:
        yield True
    finally:
        os.close(file)


def _lock(path: Path, how: int) -> int | None:
    """Return the descriptor of a file, created if needed, with a lock. Closing the descriptor
    releases the lock. None if the lock is taken."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, how)
        except BaseException as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                return None
            raise
        if _is_at(file, path):
            return file
        os.close(file)  # removed by its last owner: a lock without a file


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False
