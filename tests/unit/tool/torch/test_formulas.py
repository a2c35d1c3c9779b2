"""Functions of torch: with a formula, without multiplications, or named as not counted."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")
from torch import nn  # noqa: E402
from torch.utils.flop_counter import register_flop_formula  # noqa: E402

from diastole.torch import report  # noqa: E402
from diastole.torch.formulas import formula_of, is_unknown  # noqa: E402
from diastole.torch.multiplications import count_pass  # noqa: E402

aten = torch.ops.aten


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def tally_of(function, *given):
    return count_pass(Function(function), given, {})


@pytest.fixture
def library():
    with torch.library._scoped_library("diastole_tests", "FRAGMENT") as made:
        made.define("twice(Tensor a, Tensor b) -> Tensor")
        made.impl("twice", lambda a, b: 2 * (a @ b), "CPU")
        made.define("pieces(Tensor a, Tensor b) -> Tensor")
        made.impl("pieces", lambda a, b: a @ b, "CompositeImplicitAutograd")
        yield torch.ops.diastole_tests


def test_functions_of_other_packages_are_named(library):
    """Unless torch can take them to pieces."""
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    tally = tally_of(lambda a, b: library.twice(a, b) + a @ b, a, b)
    assert (tally.total, tally.unknown) == (3 * 4 * 5, {"diastole_tests.twice"})
    tally = tally_of(library.pieces, a, b)
    assert (tally.total, tally.unknown) == (3 * 4 * 5, set())


def test_a_formula_that_fails_does_not_end_the_pass(library):
    """Of the user's own, as torch takes them."""

    @register_flop_formula(library.twice)
    def fails(*shapes, **named):
        raise IndexError("of this shape")

    try:
        y = Function(library.twice)(torch.ones(3, 4), torch.ones(4, 5))
        tally = tally_of(library.twice, torch.ones(3, 4), torch.ones(4, 5))
    finally:
        del torch.utils.flop_counter.flop_registry[library.twice]
    assert torch.equal(y, torch.full((3, 5), 8.0))
    assert (tally.total, tally.unknown) == (0, {"diastole_tests.twice"})


@pytest.mark.parametrize(
    "function",
    [
        aten._grouped_mm.default,
        aten._cdist_forward.default,
        aten._weight_int8pack_mm.default,
        aten.mkldnn_convolution.default,
        aten.conv_depthwise3d.default,
        aten.slow_conv_transpose2d.default,
        aten._cudnn_attention_forward.default,
        aten.linalg_matrix_exp.default,
        aten.sspaddmm.default,
        torch.ops.quantized.linear_dynamic.default,
        torch.ops.higher_order.while_loop,
    ],
    ids=str,
)
def test_functions_that_multiply_without_a_formula(function):
    assert formula_of(function) is None
    assert is_unknown(function)


@pytest.mark.parametrize(
    "function",
    [
        aten.mul.Tensor,
        aten.cummax.default,
        aten.igamma.default,
        aten.upsample_bilinear2d.default,
        aten.upsample_linear1d.default,
        aten.linalg_vector_norm.default,
        aten.linalg_cross.default,
        aten._thnn_fused_gru_cell.default,
        aten._cudnn_rnn_flatten_weight.default,
        aten.native_layer_norm.default,
        aten._weight_norm_interface.default,
        aten._convert_weight_to_int4pack.default,
        aten.embedding.default,
        aten.exp.default,
        torch.ops.c10d.allreduce_.default,
    ],
    ids=str,
)
def test_functions_that_multiply_no_matrices(function):
    assert formula_of(function) is None
    assert not is_unknown(function)


def test_tensors_that_wrap_others():
    """Two tensors in one: the products of both."""
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.ones(2, 6), torch.ones(2, 6))
    assert report(nn.Linear(6, 4), x).multiplications == {"": 2 * 2 * 6 * 4}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_sequences_of_several_lengths():
    """Of nested tensors of both layouts: 2 and 3 rows."""
    layer = nn.Linear(6, 4)
    for layout in (torch.strided, torch.jagged):
        x = torch.nested.nested_tensor([torch.ones(2, 6), torch.ones(3, 6)], layout=layout)
        found = report(layer, x)
        assert (found.multiplications, found.unknown) == ({"": 5 * 6 * 4}, ())


@pytest.mark.filterwarnings("ignore")  # torch's own: it is to go to another package
def test_a_quantised_model_is_named():
    net = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 4)), {nn.Linear})
    found = report(net, torch.ones(2, 6))
    assert found.unknown == ("quantized.linear_dynamic",)
