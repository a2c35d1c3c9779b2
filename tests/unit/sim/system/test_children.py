"""Child programs: results, and that a child ends with the call that started the child."""

import subprocess
import sys
import threading

import pytest

from diastole_sim.system.children import Programs, call, run, started
from support.processes import alive, wait_for

SLEEPS = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); input()"


def test_what_a_program_prints():
    done = run([sys.executable, "-c", "import sys; print(1); sys.exit(3)"], text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "1\n", "")
    assert call([sys.executable, "-c", "import sys; sys.exit(4)"]) == 4


def test_a_program_that_takes_too_long():
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "1000"], seconds=0.1)


def test_what_a_program_started_ends_with_it():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started([sys.executable, "-c", SLEEPS], **pipes) as program:
        child = int(program.stdout.readline())
        assert alive(child)
    wait_for(lambda: not alive(program.pid) and not alive(child))


def test_programs_of_threads_end_together():
    programs = Programs()
    thread = threading.Thread(target=programs.run, args=(["sleep", "1000"],))
    thread.start()
    wait_for(lambda: programs._running)
    programs.end()
    thread.join(timeout=30)
    assert not thread.is_alive()
    with pytest.raises(InterruptedError, match=r"^the programs have been ended$"):
        programs.run(["true"])
