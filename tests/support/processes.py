"""Processes of tests: programs that never end, and who is still there."""

import sys
import time
from pathlib import Path

SECONDS = 300
"""That a process has for what is waited for."""
HANGS = """#!{python}
import os, subprocess, sys
if sys.argv[1:] == ["{asks}"]:
    print("Program 99.9")
    sys.exit()
child = subprocess.Popen(["sleep", "1000"])
open(os.path.join(os.environ["TMPDIR"], "left"), "w").close()
with open("{pids}.part", "w") as file:
    print(os.getpid(), child.pid, file=file)
os.rename("{pids}.part", "{pids}")
child.wait()
"""


def hangs(folder, name, asks):
    """A program that says its version and otherwise never ends; gives the file of its processes."""
    pids = folder / "pids"
    program = folder / "bin" / name
    program.write_text(HANGS.format(python=sys.executable, asks=asks, pids=pids))
    program.chmod(0o755)
    return pids


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def alive(pid):
    """Not even as what nobody has asked about yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    """The processes that another one has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found.append(int(path.parent.name))
    return found
