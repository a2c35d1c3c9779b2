# amaranth: UnusedElaboratable=no
"""What a host must know of a machine, from its configuration."""

import pytest

from diastole.product.host_view import HostView
from diastole_hw.top import Top
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import GroupLayout
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES
from support.host_machines import CONFIGS, VIEWS


def constants(name):
    return {each.name: each.value for each in VIEWS[name].published.constants}


@pytest.mark.parametrize("name", CONFIGS)
def test_it_is_what_the_manifest_says(name):
    view, config = VIEWS[name], CONFIGS[name]
    said = Top(config.plan, config_hash=0).parameters
    assert view.numerics.to_dict() == said["numerics"]
    assert view.fused == (said["fused_max_m"], said["fused_max_n"])
    assert view.ports == said["ports"]
    assert view.special == said.get("vector", {}).get("special", 0)
    limits: Limits = view.limits
    assert limits.max_convert_cols == said["max_convert_cols"]
    assert limits.nests == ProductNests.from_dict(said["nests"])
    assert limits.data_width == 8 * view.beat_bytes == said["data_width"]


def test_constants_of_a_class():
    found = constants("two_levels")
    layout = GroupLayout.of(CONFIGS["two_levels"].numerics.x, block=8, data_width=32)
    assert (found["BLOCK"], found["BEAT_BYTES"]) == (8, 4)
    assert found["X_FORMAT"] == '"nvfp4"'
    assert (found["X_COPIES"], found["W_COPIES"], found["X_VECTOR"]) == (2, 1, 16)
    assert (found["X_HEADER_BYTES"], found["X_EXPONENT_RUNS"]) == (4, 4)
    assert found["X_GROUP_BYTES"] == layout.group_bytes
    assert (found["X_PRECISION"], found["X_ELEMENT_BITS"]) == (2, 4)
    assert (found["X_TENSOR_SCALE"], found["X_SCALE_BIAS"]) == (1, 138)
    assert [found[f"{each.upper()}_CLASS"] for each in CLASS_NAMES] == [0, 1, 2]


def test_constants_of_planes():
    found = constants("planes")
    assert (found["X_MAX_PLANES"], found["X_PRECISION"], found["X_ELEMENT_BITS"]) == (4, 8, 3)
    assert constants("squares")["X_MAX_PLANES"] == 1


def test_constants_of_a_vector_unit():
    assert constants("floats")["VECTOR_SPECIAL_LANES"] == 1
    assert "VECTOR_PANEL" not in constants("squares")


def test_bits_that_sums_keep():
    assert VIEWS["squares"].sum_bits == 24
    windowed = VIEWS["tensors"].numerics
    assert VIEWS["tensors"].sum_bits == windowed.product_bits("x", "w") - 3


def test_fields_of_a_machine():
    def names(name):
        return {field.name for field in VIEWS[name].fields}

    assert not names("squares") & {"width", "width_x", "slot", "slot_x", "decides", "program"}
    assert names("planes") - names("squares") == {"width", "width_x", "width_w", "width_dy"}
    assert names("floats") >= {"slot", "program", "advance"}
    assert names("choices") - names("floats") == {
        *("width", "width_x", "width_w", "width_dy"),
        *("by_slot", "decides", "slot_x", "slot_w", "slot_dy"),
    }


def test_arguments_are_what_does_not_follow():
    view = VIEWS["squares"]
    assert "class_x" in {field.name for field in view.arguments(Opcode.CONVERT)}
    for opcode in view.opcodes:
        names = {field.name for field in view.arguments(opcode)}
        assert not names & {"opcode", "version", "class_w", "class_dy"}


def test_made_from_the_configuration():
    assert HostView.of(CONFIGS["squares"]) == VIEWS["squares"]
    assert VIEWS["squares"].identification == CONFIGS["squares"].identification
