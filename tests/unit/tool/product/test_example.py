"""The first run of a machine: its addresses, its commands, and what they make."""

import itertools

import numpy as np
import pytest

from diastole.product.example import BASE, SPACING, FirstRun
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.formats import FAST, FORMAT_NAMES
from diastole_sim.spec.image import image_layouts
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.operations import FORWARD
from support.product_facts import little_config

ALL = [*FORMAT_NAMES, FAST.name, "e3m2"]


def run_of(chosen: str) -> FirstRun:
    tables = {"format": dict.fromkeys(("x", "w", "dy"), chosen)}
    return FirstRun(numerics=little_config(**tables).numerics, data_width=32)


@pytest.mark.parametrize("chosen", ALL)
@pytest.mark.sampled(2)
def test_commands_are_in_order_and_name_the_places(chosen):
    run = run_of(chosen)
    limits = Limits.of(run.numerics, data_width=32)
    commands = [decode(command.encode(), limits) for command in run.commands]
    assert commands == run.commands
    x, w, forward = commands
    assert [command.opcode for command in commands] == [1, 1, 2]
    assert (x.m, x.n, x.address_x) == (5, 9, run.places["X"].address)
    assert (w.m, w.n, w.class_x) == (9, 6, 1)
    copy = len(run.layouts(FORWARD.stationary)) - 1
    assert forward.address_w == run.places[f"W{copy}"].address
    assert (forward.address_x, forward.out_a) == (x.address_w, run.places["Y"].address)
    assert (w.address_dy != 0) == (copy == 1)


@pytest.mark.parametrize("chosen", ALL)
@pytest.mark.sampled(2)
def test_places_do_not_overlap_and_hold_the_images(chosen):
    run = run_of(chosen)
    places = sorted(run.places.values(), key=lambda place: place.address)
    assert places == list(run.places.values())
    assert places[0].address == BASE
    for one, next_ in itertools.pairwise(places):
        assert one.address + one.size <= next_.address
        assert next_.address % SPACING == 0
    for tensor in FORWARD.factors:
        planes = run.numerics.planes_of(tensor.tensor_class)[-1]
        layouts = image_layouts(
            run.numerics.tensor_class(tensor.tensor_class),
            run.shape(tensor),
            block=4,
            data_width=32,
        )
        for number, (layout, image) in enumerate(zip(layouts, run.images(tensor), strict=True)):
            assert len(image) == planes * layout.total_bytes
            assert run.places[f"{tensor.name}{number}"].size == len(image)


@pytest.mark.parametrize("chosen", ALL)
@pytest.mark.sampled(2)
def test_result_is_the_product_where_it_says_so(chosen):
    run = run_of(chosen)
    exact = run.values["X"] @ run.values["W"]
    assert run.is_exact == (run.result == exact).all() == (chosen != "nvfp4")
    assert np.abs(run.result - exact).max() <= 0.1 * np.abs(exact).max()


def test_window_of_writes_begins_behind_what_is_read():
    run = run_of("bfp4")
    written = {at: value for at, value, _ in run.writes}
    assert written[0x40] == run.places["X0"].address > run.places["W"].address
    assert written[0x38] == written[0x48] >= run.places["Y"].address + run.places["Y"].size
    assert [at for at, _, _ in run.writes][-1] == 0x0C
    assert run.writes[-1][1] == 0x101


def test_another_encoding_would_be_seen():
    run = run_of("bfp4")
    assert (
        run.commands[2].encode()
        != Command.convert("x", rows=5, cols=9, source=0, destination=0, tag=0, step=0).encode()
    )
