"""Figures of ``bench/``: documents name those that exist, and a figure is judged and kept."""

import re
import shutil
import subprocess
import sys

import pytest

from support.sources import ROOT

RESULTS = ROOT / "docs" / "results.md"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"-k (?:\"([^\"]+)\"|([\w.]+))`")
NO_FIGURES = {"and", "or", "not", "NAME"}
DEMO = """
import pytest

from bench.figure import figure, shown

@figure("met {side}", at_least={1: 0.5, 2: 0.9}, form="{:.1f}")
def demo_met(side):
    return side / 2

@figure("missed", at_most=1, form="{} s")
def demo_missed():
    yield "one", 1
    yield "other", 2

@figure("near", near=1, within=0.25, form="{:.2f}")
def demo_near():
    return 1.2

@figure("free {name}", at_most=shown("a"), form="{}")
def demo_free(name):
    return 3

@figure("skipped", form="{}")
def demo_skipped():
    pytest.skip("a tool is missing")
"""


def pytest_of_bench(folder, *options):
    command = [sys.executable, "-m", "pytest", "bench", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def tests():
    """Every figure with its values, as pytest names it."""
    done = pytest_of_bench(ROOT, "--collect-only", "-q")
    assert done.returncode == 0, done.stdout
    return re.findall(r"^bench/(measure_\S+\.py::.+)$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_figures_that_documents_name_are_there(document, tests):
    for quoted, plain in COMMAND.findall(document.read_text()):
        for word in set(re.findall(r"\w+", quoted or plain)) - NO_FIGURES:
            assert any(word in test for test in tests), word


def test_every_figure_has_a_row(tests):
    """Also one that was not measured yet."""
    names = {re.sub(r"\[.*", "", test.partition("::")[2]) for test in tests}
    listed = re.findall(r"`pytest bench -k (\w+)` \|$", RESULTS.read_text(), re.MULTILINE)
    assert set(listed) == names
    assert len(tests) <= len(listed)


@pytest.fixture
def demo(tmp_path):
    """A bench of a few figures."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "bench").mkdir()
    for name in ("__init__", "conftest", "figure", "results"):
        shutil.copy(ROOT / "bench" / f"{name}.py", tmp_path / "bench")
    (tmp_path / "bench" / "measure_demo.py").write_text(f'"""Some demo. More."""\n{DEMO}')
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_figures_are_judged_and_kept(demo):
    done = pytest_of_bench(demo, "--results", "-k", "demo_missed or demo_free")
    assert done.returncode == 1
    assert re.search(r"^missed: one +1 s  at most 1 s +yes$", done.stdout, re.MULTILINE)
    assert "missed: other is 2 s, goal: at most 1 s" in done.stdout
    page = (demo / "docs" / "results.md").read_text()
    assert "| met 1 | at least 0.5 | not measured yet | `pytest bench -k demo_met` |" in page
    done = pytest_of_bench(demo, "--results", "-k", "demo_met or near or skipped")
    assert done.returncode == 0, done.stdout
    assert "a tool is missing" in done.stdout
    page = (demo / "docs" / "results.md").read_text()
    assert page.partition("## ")[2].splitlines() == [
        "Some demo",
        "",
        "| what | goal | measured | command |",
        "| --- | --- | --- | --- |",
        "| met 1 | at least 0.5 | 0.5 | `pytest bench -k demo_met` |",
        "| met 2 | at least 0.9 | 1.0 | `pytest bench -k demo_met` |",
        "| missed: one | at most 1 s | 1 s | `pytest bench -k demo_missed` |",
        "| missed: other | at most 1 s | 2 s | `pytest bench -k demo_missed` |",
        "| near | 1.00 within 0.25 | 1.20 | `pytest bench -k demo_near` |",
        "| free a |  | 3 | `pytest bench -k demo_free` |",
        "| skipped |  | not measured yet | `pytest bench -k demo_skipped` |",
    ]


def test_names_that_are_within_others_are_refused(demo):
    more = "\n@figure('again')\ndef demo_me():\n    return 1\n"
    path = demo / "bench" / "measure_demo.py"
    path.write_text(path.read_text() + more)
    done = pytest_of_bench(demo)
    assert "-k cannot tell these apart: [('demo_me', 'demo_met')]" in done.stdout + done.stderr


def test_a_page_of_some_files_is_refused(demo):
    (demo / "bench" / "measure_other.py").write_text(f"{DEMO.replace('demo', 'other')}")
    done = pytest_of_bench(demo, "--results", "--ignore=bench/measure_other.py")
    assert done.returncode == 4
    assert "ERROR: --results is of the whole bench: pytest bench --results -k NAME" in done.stderr
    assert not (demo / "docs" / "results.md").exists()
