"""The table of master weights, from few steps."""

from statistics import mean, stdev

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import masters
from diastole.measure.masters import MASTERS, figures, train_master
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.train import run_task
from diastole_sim.train.master import Master


def test_a_job_is_a_run_of_its_masters():
    given = {"backend": "golden", "seed": 3, "steps": 3}
    device = GoldenDevice(PRODUCTS_ONLY["nano"].numerics, seed=3)
    master = Master(kind="bf16", rounding="stochastic-a", bits=4)
    want = run_task("digits", device, master=master, **given)
    assert train_master(("bf16 stochastic-a, 4 bits", 3, 3)) == want.accuracy


def test_figures(monkeypatch):
    """Two for each, of all seeds."""
    monkeypatch.setattr(masters, "SEEDS", (0, 3))
    names = ("float32", "e6m9 nearest")
    monkeypatch.setattr(masters, "MASTERS", {name: MASTERS[name] for name in names})
    found = list(figures(2))
    assert [each.what for each in found] == [
        f"digits, seeds 0 to 3, master {name}: {what}"
        for name in names
        for what in ("accuracy", "deviation")
    ]
    runs = [train_master(("e6m9 nearest", seed, 2)) for seed in (0, 3)]
    assert [each.measured for each in found[2:]] == [f"{mean(runs):.2%}", f"{stdev(runs):.2%}"]
    assert {each.met for each in found} == {None}


def test_names_say_what_they_are():
    for name, master in MASTERS.items():
        kind, _, rest = name.partition(" ")
        rounding, _, bits = rest.partition(", ")
        assert (master.kind, master.rounding or "") == (kind, rounding)
        if bits:
            assert f"{master.bits} bits" == bits
        else:
            assert master.bits == (16 if "stochastic" in rounding else None)
