"""Commands that are asked to end: by each signal, with their programs and workers, and nothing left
of their temporary folders."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from diastole.ending import Ended, end_on_signals
from support.processes import SECONDS, alive, children, hangs, wait_for

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
OVER = ("--over", "array.rows=2,4,8")
COMMANDS = {
    "estimate": ("estimate", "--preset", "edge", "--shapes", "resnet-50", *OVER),
    "compare": ("compare", "--over", "format=bfp2,bfp4", "--jobs", "2", "--results", "r.jsonl"),
}
"""Commands that have workers for long, however many cores there are."""


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A folder for temporary files, and one for programs that hang; gives what starts a process."""
    for name in ("tmp", "bin", "work"):
        (tmp_path / name).mkdir()
    paths = os.pathsep.join(path for path in sys.path if Path(path).is_dir())
    environment = {"TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": paths}
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    errors = tmp_path / "errors.txt"

    def care():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def start(*words, **more):
        with errors.open("w") as file:
            return subprocess.Popen(
                [sys.executable, *words],
                cwd=tmp_path / "work",
                stdout=subprocess.DEVNULL,
                stderr=file,
                env=os.environ | environment | more,
                preexec_fn=care,  # what runs the tests may ignore a signal, as a shell's `&` does
            )

    return start


def ends(folder, process, number, pids):
    """It does, with its exit code, one line, all of ``pids``, and no temporary file."""
    process.send_signal(number)
    assert process.wait(timeout=SECONDS) == SIGNALS[number]
    wait_for(lambda: not any(alive(pid) for pid in pids))
    last = (folder / "errors.txt").read_text().splitlines()[-1]
    name = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    assert last == f"diastole: error: {name}"
    assert "Traceback" not in (folder / "errors.txt").read_text()
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.sampled(2)
def test_yosys_ends_with_synth(tmp_path, apart, number):
    pids = hangs(tmp_path, "yosys", "-V")
    process = apart("-m", "diastole", "synth", "--preset", "pico", "--target", "ecp5")
    wait_for(pids.exists)
    ends(tmp_path, process, number, [int(pid) for pid in pids.read_text().split()])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.sampled(2)
def test_workers_end_with_their_command(tmp_path, apart, command, number):
    process = apart("-m", "diastole", *COMMANDS[command])
    # both have a process that counts what is shared, and then the workers
    found = wait_for(lambda: len(each := children(process.pid)) > 2 and each)
    time.sleep(1)
    ends(tmp_path, process, number, found)


def test_workers_end_with_a_parent_that_is_killed(apart):
    process = apart("-m", "diastole", *COMMANDS["estimate"])
    found = wait_for(lambda: len(each := children(process.pid)) > 2 and each)
    process.kill()
    process.wait()
    wait_for(lambda: not any(alive(pid) for pid in found))


@pytest.fixture
def handled():
    """All signals have their usual handlers, although whoever runs the tests may ignore some."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_the_one(number, handled):
    """Signals that follow the first one do not interrupt the removal of files."""
    undone = []
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(Ended) as caught, end_on_signals():  # noqa: PT012 - what follows counts
        try:
            os.kill(os.getpid(), number)
            time.sleep(SECONDS)
        finally:
            for each in SIGNALS:
                os.kill(os.getpid(), each)
            undone.append(True)
    assert (caught.value.number, caught.value.code) == (number, SIGNALS[number])
    assert undone == [True]
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_a_finalizer_ends_the_block(number, handled, capfd):
    """Python drops exceptions of finalizers: the signal is raised again, and prints nothing."""
    times = []

    class Signals:
        def __del__(self):
            os.kill(os.getpid(), number)
            time.sleep(SECONDS)

    with pytest.raises(Ended) as caught, end_on_signals():  # noqa: PT012 - what follows counts
        times.append(time.monotonic())
        Signals()
        time.sleep(SECONDS)
    assert caught.value.code == SIGNALS[number]
    assert time.monotonic() - times[0] < SECONDS
    assert capfd.readouterr() == ("", "")


def test_signals_that_others_care_for_stay_theirs(monkeypatch):
    """`nohup` has SIGHUP ignored; a program that calls us may have handlers of its own."""
    mine = [lambda *_: None, signal.SIG_IGN]
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(*pair) for pair in zip(numbers, mine, strict=True)]
    try:
        with end_on_signals():
            assert [signal.getsignal(number) for number in numbers] == mine
    finally:
        for pair in zip(numbers, before, strict=True):
            signal.signal(*pair)


def test_in_a_thread_nothing_is_handled():
    found = []

    def work():
        with end_on_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_generate_leaves_nothing(tmp_path, apart):
    """While its Yosys runs."""
    (tmp_path / "work" / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    small = ("--set", "array={rows=1, cols=1, block=4}", "--set", "bus.data_width=32")
    process = apart("-m", "diastole", "generate", "nano.toml", "-o", "product", *small)
    found = wait_for(lambda: children(process.pid))
    time.sleep(0.3)
    ends(tmp_path, process, signal.SIGTERM, found)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["nano.toml"]
