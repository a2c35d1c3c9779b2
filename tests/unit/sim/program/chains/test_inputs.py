"""What enters a network."""

import numpy as np

from diastole_sim.program.chains import inputs
from diastole_sim.program.evaluate import in_float64
from diastole_sim.spec.stream_table import Kind


def test_bytes_and_floats(np_rng):
    values = np_rng.integers(0, 256, size=(5, 7))
    options = {"shape": (5, 7), "constants": {"scale": 1 / 16}}
    found = in_float64(inputs.input_bytes(), {"bytes": values}, **options)
    np.testing.assert_array_equal(found["x"], values / 16)
    values = np_rng.normal(size=(5, 7))
    found = in_float64(inputs.input_floats(), {"values": values}, shape=(5, 7))
    np.testing.assert_array_equal(found["x"], values)


def test_bias(np_rng):
    y, b = np_rng.normal(size=(5, 7)), np_rng.normal(size=7)
    found = in_float64(inputs.add_bias_alone(), {"y": y, "b": b}, shape=(5, 7))
    np.testing.assert_array_equal(found["z"], y + b)
    assert inputs.add_bias_alone().outputs["z"].kinds[0] == Kind.F32


def test_a_bias_in_the_panel_is_in_every_row_slot(np_rng):
    y, b = np_rng.normal(size=(19, 13)), np_rng.normal(size=13)
    panel, memory = Kind.PANEL, Kind.COLUMN
    rows = in_float64(
        inputs.copied_columns(), {"x": b}, shape=(4, 13), kinds={"x": memory, "y": panel}
    )
    assert rows["y"].shape == (4, 13)
    options = {"shape": (19, 13), "kinds": {"b": panel}}
    found = in_float64(inputs.add_bias_alone(), {"y": y, "b": rows["y"]}, **options)
    np.testing.assert_array_equal(found["z"], y + b)
    found = in_float64(
        inputs.copied_columns(),
        {"x": rows["y"]},
        shape=(4, 13),
        kinds={"x": panel, "y": memory},
    )
    np.testing.assert_array_equal(found["y"], b)
