"""Runs a page in a headless browser and gives back what it made: for pictures of it, and tests."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from diastole_sim.system import children

LIGHTPANDA = "lightpanda"  # a package of Python that brings its browser
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
SECONDS = 60


def browsers() -> list[str]:
    """The programs that are there, of those that we know how to ask."""
    beside = Path(sys.executable).with_name(LIGHTPANDA)
    found = [str(beside)] if beside.exists() else []
    return found + [
        path for name in (LIGHTPANDA, *CHROMIUM)[bool(found) :] if (path := shutil.which(name))
    ]


def document_after(page: Path, browser: str) -> str:
    """The text of a page's document when its scripts have run. RuntimeError if the browser has
    none, or takes longer than :data:`SECONDS`."""
    with _served(page.parent) as origin:
        address = f"{origin}/{page.name}"
        if Path(browser).name == LIGHTPANDA:
            command = [browser, "fetch", "--dump", "html", address]
        else:
            command = [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--dump-dom",
                address,
            ]
        try:
            done = children.run(command, seconds=SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{browser} has not ended after {SECONDS} s") from None
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{browser}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def _served(folder: Path) -> Generator[str]:
    """The address under which the folder's files are to be had, on this machine only."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
