"""Runs figures as tests: prints each number as it is found, fails where one is not met."""

import inspect
import os
import random

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # read by numpy and torch when they are first imported

import pytest  # noqa: E402

from bench import results  # noqa: E402

FIGURES = pytest.StashKey[list]()
MEASURED = pytest.StashKey[dict]()


def pytest_addoption(parser):
    parser.addoption("--results", action="store_true", help="write docs/results.md")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "default")
    config.stash[MEASURED] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Store all figures, including figures that ``-k`` leaves out. AssertionError if the name of a
    figure is part of another name."""
    config.stash[FIGURES] = figures = [i for i in items if hasattr(i.function, "figure")]
    names = {item.function.__name__ for item in figures}
    within = [(one, other) for one in names for other in names if one != other and one in other]
    assert not within, f"-k cannot tell these apart: {within}"
    whole = {item.path for item in figures} == {*results.ROOT.glob("bench/measure_*.py")}
    if config.getoption("--results") and not whole:
        raise pytest.UsageError("--results is of the whole bench: pytest bench --results -k NAME")


@pytest.fixture
def rng(request):
    return random.Random(request.node.nodeid)


def pytest_pyfunc_call(pyfuncitem):
    figure = getattr(pyfuncitem.function, "figure", None)
    if figure is None:
        return None
    names = inspect.signature(pyfuncitem.function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    config, missed = pyfuncitem.config, []
    measured = config.stash[MEASURED].setdefault(results.key_of(pyfuncitem), {})
    capture = config.pluginmanager.getplugin("capturemanager")
    for row in figure.rows(results.values_of(pyfuncitem), pyfuncitem.function(**arguments)):
        measured[row.what] = row.measured
        verdict = {True: "yes", False: "NO", None: ""}[row.met]
        with capture.global_and_fixture_disabled():
            print(f"\n{row.what:72} {row.measured:>12}  {row.target:24} {verdict}".rstrip(), end="")
        if row.met is False:
            missed.append(f"{row.what} is {row.measured}, goal: {row.target}")
    assert measured, "nothing was measured"
    if missed:
        pytest.fail("\n".join(missed), pytrace=False)
    return True


def pytest_sessionfinish(session):
    measured = session.config.stash[MEASURED]
    if session.config.getoption("--results") and measured:
        items = session.config.stash[FIGURES]
        results.write_document(results.remembered(measured, items), items)
