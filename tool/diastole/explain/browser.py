"""Run a page in a headless browser and return the document, for pictures of the page, and for
tests."""

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

LIGHTPANDA = "lightpanda"  # a Python package with its own browser
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
SECONDS = 60


def browsers() -> list[str]:
    """Return the installed browsers, among the browsers with a known command line."""
    packaged = Path(sys.executable).with_name(LIGHTPANDA)
    paths = [str(packaged)] if packaged.exists() else []
    return paths + [
        path for name in (LIGHTPANDA, *CHROMIUM)[bool(paths) :] if (path := shutil.which(name))
    ]


def document_after(page: Path, browser: str) -> str:
    """Return the text of a page's document after its scripts have run. RuntimeError if the browser
    has no document, or takes longer than :data:`SECONDS`."""
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
        """Print nothing."""


@contextmanager
def _served(folder: Path) -> Generator[str]:
    """Serve the files of the folder on this machine only, and yield the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
