"""Where a training ceased to be finite: each name once, in order, in words."""

import numpy as np

from diastole_sim.train.history import History


def test_the_first_step_of_each_name():
    history = History()
    history.look_at("the loss", 1.0, "step 0")
    history.look_at("w", np.array([[1.0, np.nan, np.inf], [-np.inf, 2.0, 3.0]]), "step 1")
    history.look_at("the loss", np.float32(np.inf), "step 1")
    history.look_at("w", np.full(4, np.nan), "step 2")
    history.look_at("b", np.full(4, np.nan), "step 2")
    history.look_at("other loss", float("nan"), "steps 2 to 9")
    assert list(history.not_finite.items()) == [
        ("w", "step 1: w has 1 NaN and 2 Inf among 6 numbers"),
        ("the loss", "step 1: the loss is Inf"),
        ("b", "step 2: b has 4 NaN among 4 numbers"),
        ("other loss", "steps 2 to 9: other loss is NaN"),
    ]


def test_nothing_to_say():
    history = History()
    history.look_at("w", np.float32([0.0, -3.4e38, 1e-45]), "step 0")
    assert history == History()


def test_a_step_that_is_skipped_is_forgotten():
    history = History()
    history.look_at("a", np.inf, "step 1")
    noted = set(history.not_finite)
    for name in ("b", "c"):
        history.look_at(name, np.nan, "step 2")
    history.forget_all_but(noted)
    assert list(history.not_finite) == ["a"]
    history.look_at("b", np.nan, "step 3")
    assert history.not_finite["b"] == "step 3: b is NaN"
