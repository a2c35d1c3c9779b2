"""Folders that are made once: damage, bounds, processes that are killed, processes at once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from diastole_sim.system.cache import RECORD, Cache, _locked, damage, user_folder

TEXT = "what was made\n"


@pytest.fixture
def said():
    return []


@pytest.fixture
def cache(tmp_path, said):
    return Cache(tmp_path / "kept", say=said.append)


def fill(entry):
    (entry / "inner").mkdir()
    (entry / "inner" / "file").write_text(TEXT)
    (entry / "other").write_bytes(bytes(range(256)))


def refuse(entry):
    raise AssertionError("made again")


def other_process(tmp_path, body, *arguments):
    """Another Python process with the cache, that tells by a line when it has come so far."""
    code = (
        "import sys, time, pathlib\n"
        "from diastole_sim.system.cache import Cache\n"
        f"cache = Cache(pathlib.Path({str(tmp_path / 'kept')!r}))\n"
        "def tell(*_):\n    print('here', flush=True)\n"
        "def write(entry):\n    (entry / 'file').write_text('theirs')\n" + body
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def reach(process):
    assert process.stdout.readline() == "here\n"


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def names(cache):
    return sorted(path.name for path in cache.folder.iterdir() if path.is_dir())


def test_an_entry_is_made_once(cache, said):
    entry = cache.get("a", fill)
    assert (entry / "inner" / "file").read_text() == TEXT
    assert cache.get("a", refuse) == entry
    assert cache.get("b", fill) != entry
    assert names(cache) == ["a", "b"]
    assert said == []
    recorded = json.loads((entry / RECORD).read_text())
    assert {name: made["bytes"] for name, made in recorded.items()} == {
        "inner/file": len(TEXT),
        "other": 256,
    }


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("name", ["inner/file", "other", RECORD])
def test_what_is_damaged_is_made_again_and_that_is_said(cache, said, harm, name):
    entry = cache.get("a", fill)
    harm(entry / name)
    found = damage(entry)
    assert found
    if harm is Path.unlink and name != RECORD:
        assert found == f"{name} is missing"
    assert name in found or RECORD in found
    assert cache.get("a", fill) == entry
    assert said == [f"{entry} is damaged ({found}) and is generated again"]
    assert damage(entry) is None
    assert (entry / "inner" / "file").read_text() == TEXT
    assert cache.get("a", refuse) == entry
    assert len(said) == 1
    assert names(cache) == ["a"]


@pytest.mark.parametrize("record", ["[]", "{", '{"other": 3}', '{"other": {"bytes": 256}}', "7"])
def test_a_record_that_is_none(cache, record):
    entry = cache.get("a", fill)
    (entry / RECORD).write_text(record)
    assert damage(entry) is not None
    cache.get("a", fill)
    assert damage(entry) is None


def test_what_a_reader_has_open_survives_the_repair(cache):
    entry = cache.get("a", fill)
    with (entry / "inner" / "file").open() as file:
        flip(entry / "other")
        cache.get("a", fill)
        assert file.read() == TEXT


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_fails_leaves_nothing(cache, error):
    def fail(entry):
        fill(entry)
        raise error

    with pytest.raises(error):
        cache.get("a", fail)
    assert names(cache) == []
    assert (cache.get("a", fill) / "other").exists()


def test_the_least_recently_used_go(tmp_path):
    """Those that a process uses stay: here all that were used by one that has ended are free."""
    small = Cache(tmp_path / "kept", limit=3)
    body = "for key in 'abcd':\n    cache.get(key, write)\n    time.sleep(0.02)\n"
    process = other_process(tmp_path, body + "cache.get('a', write)\n")
    process.communicate()
    assert names(small) == ["a", "b", "c", "d"]
    small.get("e", fill)
    assert names(small) == ["a", "d", "e"]
    assert not list(small.folder.glob("b.*"))  # its locks too
    small.get("f", fill)
    assert names(small) == ["a", "e", "f"]
    small.get("g", fill)
    assert names(small) == ["e", "f", "g"]
    small.get("h", fill)  # all are in use, by this process
    assert names(small) == ["e", "f", "g", "h"]


def test_what_another_process_uses_stays(tmp_path):
    small = Cache(tmp_path / "kept", limit=1)
    process = other_process(tmp_path, "cache.get('old', write)\ntell()\ntime.sleep(60)\n")
    reach(process)
    time.sleep(0.02)
    small.get("new", fill)
    assert names(small) == ["new", "old"]
    kill(process)
    small.get("newer", fill)
    assert names(small) == ["new", "newer"]


def test_the_leftovers_of_a_killed_process_are_collected(tmp_path, cache):
    body = (
        "def hang(entry):\n    write(entry)\n    tell()\n    time.sleep(60)\ncache.get('a', hang)\n"
    )
    process = other_process(tmp_path, body)
    reach(process)
    left = names(cache)
    assert left == ["making-a"]
    cache.get("b", fill)
    assert names(cache) == ["b", "making-a"]  # its owner is alive
    kill(process)
    assert names(cache) == ["b", "making-a"]
    cache.get("c", fill)
    assert names(cache) == ["b", "c"]


def test_after_a_killed_process_an_entry_is_made_anew(tmp_path, cache, said):
    body = (
        "def hang(entry):\n    write(entry)\n    tell()\n    time.sleep(60)\ncache.get('a', hang)\n"
    )
    process = other_process(tmp_path, body)
    reach(process)
    kill(process)
    entry = cache.get("a", fill)
    assert sorted(path.name for path in entry.iterdir()) == ["inner", "other", RECORD]
    assert names(cache) == ["a"]
    assert said == []


def test_threads_wait_for_each_other(cache):
    made, found = [], []

    def slow(entry):
        made.append(entry)
        time.sleep(0.1)
        fill(entry)

    threads = [
        threading.Thread(target=lambda: found.append(cache.get("a", slow))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache.folder / "a"] * 5
    assert len(made) == 1


def test_the_lock_of_a_file_that_was_removed_is_not_had(tmp_path):
    """Who waited for it takes that of the file which is there then, as everyone after does."""
    path, seen = tmp_path / "a.use", []

    def wait():
        with _locked(path) as free:
            seen.append((free, path.exists()))

    waiting = threading.Thread(target=wait)
    with _locked(path) as free:
        assert free
        waiting.start()
        time.sleep(0.1)
        assert seen == []
        path.unlink()
    waiting.join()
    assert seen == [(True, True)]


def test_processes_make_repair_and_remove_at_once(tmp_path, cache):
    """Every entry that is handed out is whole; nothing is left over."""
    body = """
import contextlib, os, random
from diastole_sim.system import cache as module
cache = Cache(cache.folder, limit=2, say=lambda text: None)
chance = random.Random(sys.argv[1])
for _ in range(60):
    key = chance.choice("abcde")
    entry = cache.get(key, write)
    with contextlib.suppress(FileNotFoundError):  # it was damaged here, and another mends it
        assert (entry / "file").read_text() == "theirs", key
        if chance.random() < 0.2:
            with (entry / "record.json").open("r+") as file:
                file.write("?")
    os.close(module._locks.pop(cache.folder / f"{key}.use"))  # as if this process had ended
tell()
"""
    processes = [other_process(tmp_path, body, seed) for seed in range(4)]
    told = [process.communicate()[0] for process in processes]
    assert told == ["here\n"] * 4
    last = Cache(tmp_path / "kept", limit=2)
    last.get("last", fill)
    assert len(names(last)) == 2
    assert not any(name.startswith("making-") for name in names(last))


def test_a_cache_that_was_removed_meanwhile(cache):
    entry = cache.get("a", fill)
    shutil.rmtree(cache.folder)
    assert cache.get("a", fill) == entry
    assert damage(entry) is None
    small = Cache(cache.folder, limit=0)
    small.get("b", fill)
    assert names(cache) == ["a", "b"]  # both are in use again


def test_usage(cache):
    assert cache.usage == (0, 0)
    entry = cache.get("a", fill)
    assert cache.usage == (1, len(TEXT) + 256 + (entry / RECORD).stat().st_size)


@pytest.mark.parametrize("value", [None, "", "relative"])
def test_without_the_variable_the_home_folder_counts(tmp_path, monkeypatch, value):
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert user_folder() == tmp_path / ".cache" / "diastole"


def test_without_a_home_folder(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(OSError, match="there is no home folder; set XDG_CACHE_HOME to a folder"):
        user_folder()
