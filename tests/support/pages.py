"""Pages of `diastole explain` in the browsers of this machine, with a reader that tries everything.

`page_reader.js` presses keys and points at what is there, and leaves what it was told in the page.
"""

import html
import json
import re
from pathlib import Path

import pytest

from diastole.explain.browser import browsers, document_after

NONE = pytest.mark.skip("no browser: make setup installs one where the system is new enough")
BROWSERS = browsers() or [pytest.param(None, marks=NONE)]
"""Parameters of a test: every browser, or a skip that says why there is none."""
READER = Path(__file__).with_name("page_reader.js").read_text()


def read_in(browser, text, folder):
    """What a reader of the page ``text`` is told."""
    page = folder / "page.html"
    page.write_text(text.replace("</body>", f"<script>{READER}</script></body>"), encoding="utf-8")
    found = re.search('<pre id="told">(.*?)</pre>', document_after(page, browser), re.DOTALL)
    assert found, "the scripts of the page did not run"
    return json.loads(html.unescape(found[1]))
