"""Pages run in a browser: its document comes back as its scripts have left it."""

import pytest

from diastole.explain import browser
from support.pages import BROWSERS


@pytest.mark.parametrize("program", BROWSERS)
def test_scripts_have_run(tmp_path, program):
    page = tmp_path / "a page.html"
    page.write_text(
        "<meta charset=utf-8><p id=here></p><script>here.textContent = 6 * 7 + '…'</script>"
    )
    assert '<p id="here">42…</p>' in browser.document_after(page, program)


def test_a_browser_that_fails(tmp_path):
    (tmp_path / "a.html").write_text("")
    with pytest.raises(RuntimeError, match="false"):
        browser.document_after(tmp_path / "a.html", "false")


def test_those_that_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(browser.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(browser.shutil, "which", lambda name: f"/bin/{name}")
    everyone = [f"/bin/{name}" for name in (browser.LIGHTPANDA, *browser.CHROMIUM)]
    assert browser.browsers() == everyone
    (tmp_path / browser.LIGHTPANDA).touch()
    assert browser.browsers() == [str(tmp_path / browser.LIGHTPANDA), *everyone[1:]]
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    (tmp_path / browser.LIGHTPANDA).unlink()
    assert browser.browsers() == []
