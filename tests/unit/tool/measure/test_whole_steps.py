"""What is measured of whole steps: differences of two runs."""

from diastole.measure import whole_steps
from diastole.measure.whole_steps import CASES, FEWER, MORE


def test_every_case_is_a_machine_with_a_unit():
    for case in CASES:
        config = whole_steps.configured_step(case)
        assert config.vector.enable
        assert config.array == whole_steps.PRODUCTS_ONLY["nano"].array
    assert len({whole_steps.configured_step(case).config_sha256 for case in CASES}) == len(CASES)


def test_what_begins_and_ends_a_run_does_not_count(monkeypatch):
    def run(case, steps):
        assert steps in (FEWER, MORE)
        return whole_steps._Run(
            cycles=5000 + 12_500 * steps,
            waits={"busy_slots": 100 + 2500 * steps, "wait_load": 10_000 * steps},
            bytes=777 + 40 * 1024 * steps,
            speed=400_000.0,
        )

    monkeypatch.setattr(whole_steps, "_run", run)
    found = {figure.what: figure for figure in whole_steps.figures()}
    step = found["cycles of a step on digits, nano"]
    assert (step.measured, step.asked, step.met) == ("12,500", "at most 12,000", False)
    assert found["cycles of a step on digits, nano at 64 bits"].met
    assert found["share of busy_slots, nano"].measured == "20.0%"
    assert found["share of wait_load, nano"].measured == "80.0%"
    assert found["KiB over the bus in it, nano"].measured == "40.0"
    assert found["simulated cycles per second, nano with a vector unit"].met
