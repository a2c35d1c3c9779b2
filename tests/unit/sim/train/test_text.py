"""The text: windows that follow each other, a fixed part that is held out, its licence."""

import numpy as np

from diastole_sim.train.text import CONTEXT, TEXT, load_text, split_text


def test_windows_are_the_text_in_order():
    data = TEXT.read_bytes()
    samples = load_text()
    assert samples.inputs.shape == samples.labels.shape == ((len(data) - 1) // CONTEXT, CONTEXT)
    assert bytes(samples.inputs.astype(np.uint8).ravel()) == data[: samples.inputs.size]
    assert bytes(samples.labels.astype(np.uint8).ravel()) == data[1 : samples.inputs.size + 1]


def test_the_same_part_is_held_out_for_every_seed():
    """Eight stretches of sixteen windows, evenly apart: 8 KiB, and no word of it to train with."""
    samples = load_text()
    parts = [split_text(samples, seed=seed) for seed in (0, 5)]
    for one, other in zip(*parts, strict=True):
        assert np.array_equal(one.inputs, other.inputs)
    training, held_out = parts[0]
    assert held_out.inputs.shape == (128, 64)
    assert len(training.labels) + 128 == len(samples.labels)
    kept, held = ({bytes(w.astype(np.uint8)) for w in part.inputs} for part in parts[0])
    shared = [window for window in held if window in kept]
    assert len(shared) <= 4
    assert set(b"".join(shared)) <= set(b"+-=| \n")  # rules of tables
    every = len(samples.labels) // 16 // 8
    first = (every - 1) * 16
    assert np.array_equal(held_out.inputs[:16], samples.inputs[first : first + 16])


def test_it_is_plain_text_with_its_licence():
    text = TEXT.read_text("ascii")
    assert 100_000 < len(text) < 300_000
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in TEXT.with_name("LICENSE").read_text()
    assert "Python Software Foundation" in TEXT.with_name("README.md").read_text()
