"""Folders that can be made again, kept for the next time: checked, bounded, shared by processes.

Everything that is said of other processes holds of other threads too. Beside an entry ``KEY`` lie
two empty files whose locks the system gives back even when a process is killed: ``KEY.use`` is held
by all who use the entry, so that nobody removes it; ``KEY.lock`` by the one who makes it, in
``making-KEY``. Both go with the entry.
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

_held: dict[Path, int] = {}
"""Descriptors of the files whose locks this process shares to its end."""
_holding = threading.Lock()


def user_folder() -> Path:
    """``$XDG_CACHE_HOME/diastole``, or ``~/.cache/diastole``; OSError where there is neither."""
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
    """At most ``limit`` entries in ``folder``, besides those in use; the least recently used go.

    An entry is a folder with a record of the size and SHA-256 of its files, by which it is checked
    whenever it is asked for. ``say`` is called where one is damaged.
    """

    folder: Path
    limit: int = LIMIT
    say: Callable[[str], None] = say_on_stderr

    def get(self, key: str, make: Callable[[Path], object]) -> Path:
        """The folder of an entry; ``make(folder)`` fills an empty one if there is none yet, or if
        it is damaged. It appears whole, and stays as long as this process does.

        Those who want the same entry wait for each other. What ``make`` raises leaves nothing.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        _hold(self.folder / f"{key}.use")
        entry = self.folder / key
        if damage(entry) is not None:
            with _locked(self.folder / f"{key}.lock") as free:
                assert free
                found = damage(entry)  # whoever had the lock may have mended it
                if found is not None:
                    self._make(key, found, make)
        with contextlib.suppress(OSError):  # damaged just now, and being mended
            os.utime(entry / RECORD)
        return entry

    def _make(self, key: str, found: str, make: Callable[[Path], object]) -> None:
        self._collect()
        entry, new = self.folder / key, self.folder / f"{MAKING}{key}"
        shutil.rmtree(new, ignore_errors=True)  # nobody else makes it: a process was killed here
        if entry.exists():
            self.say(f"{entry} is damaged ({found}); it is made again")
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
        """Remove what killed processes left behind."""
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
        """Remove an entry, unless it is in use."""
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
        found = self.folder.glob(f"*/{RECORD}")
        return [path.parent for path in found if not path.parent.name.startswith(MAKING)]

    @property
    def usage(self) -> tuple[int, int]:
        """Entries, and the bytes of all that is in the folder."""
        return len(self._entries()), sum(map(_size, self.folder.rglob("*")))


def damage(entry: Path) -> str | None:
    """What is wrong with an entry, in words; None if it is as it was made."""
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
    """0 for what is no file, or is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


def _changed(path: Path) -> float:
    """When, in seconds; now if it is gone."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return time.time()


def _remove(entry: Path, aside: Path) -> None:
    """First out of sight, in one step: whoever looks meanwhile sees the whole or nothing."""
    shutil.rmtree(aside, ignore_errors=True)
    entry.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _hold(path: Path) -> None:
    """Share the lock of a file from now until the process ends."""
    with _holding:
        held = _held.get(path)
        if held is not None and _is_at(held, path):
            return
        shared = _lock(path, fcntl.LOCK_SH)
        assert shared is not None
        if held is not None:
            os.close(held)
        _held[path] = shared


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Generator[bool]:
    """Have the lock of a file; with False instead of waiting for another."""
    file = _lock(path, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    if file is None:
        yield False
        return
    try:
        yield True
    finally:
        os.close(file)


def _lock(path: Path, how: int) -> int | None:
    """The descriptor of a file, made if need be, with a lock that closing it gives back; None if
    the lock is taken."""
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
        os.close(file)  # its last owner has removed it: the lock of no file


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False
