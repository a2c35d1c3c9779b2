"""The shapes of nine networks, against published totals: a layer that is wrong changes them."""

import pytest

from diastole.layers.networks import NETWORKS, Layer, conv

BY_NAME = {network.name: network for network in NETWORKS}
PARAMETERS = {
    # torchvision, resnet50: all, less the scales and shifts of 26 560 channels and 1000 biases.
    "ResNet-50": 25_557_032 - 2 * 26_560 - 1000,
    # Caffe, bvlc_googlenet: all, less the biases of 6960 channels of modules and 1320 others.
    "GoogLeNet": 6_998_552 - 6960 - 1320,
    # ResNet-50's, less stage 5 (torchvision: layer4, 14 964 736 with 11 264 channels) and the last
    # layer, and a 3 x 3 from 1024 to 512 with (4 + 2) * 9 outputs.
    "Faster R-CNN": 25_502_912 - (14_964_736 - 2 * 11_264) - 2_048_000 + 9 * 1024 * 512 + 512 * 54,
    # darknet, tiny-yolo-voc.weights: bytes, less a header, 4 numbers a channel, the last biases.
    "YOLO tiny": (63_471_556 - 16) // 4 - 4 * 3056 - 125,
    # Hugging Face, bert-base-uncased: all, less embeddings with their scales and shifts, the
    # pooler, and biases, scales and shifts of 12 layers.
    "BERT": 109_482_240 - (30_522 + 512 + 2 + 2) * 768 - 769 * 768 - 12 * 13 * 768,
    # Hugging Face, t5-base: all, less scales of 62 norms and the biases of positions.
    "T5": 222_903_552 - 62 * 768 - 2 * 32 * 12,
    # SCALE-Sim, topologies/dlrm/DLRM.csv: 13-512-256-64-16, 22-512-256-1; here 367 for 22.
    "DLRM": 155_136 + 142_592 + (367 - 22) * 512,
}
MACS = {
    "ResNet-50": (3.8e9, 0.02),  # He and others, table 1
    "GoogLeNet": (1.5e9, 0.06),  # Szegedy and others: a budget of 1.5 billion
    "MobileNet": (569e6, 0.001),  # Howard and others, table 4
    "YOLO tiny": (6.97e9 / 2, 0.001),  # darknet: 6.97 billion operations
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    assert BY_NAME[name].parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", MACS)
def test_macs(name):
    published, within = MACS[name]
    assert BY_NAME[name].macs == pytest.approx(published, rel=within)


def test_mobilenet_parameters():
    """Table 4: 4.2 million."""
    assert round(BY_NAME["MobileNet"].parameters / 1e6, 1) == 4.2


def test_ncf():
    """SCALE-Sim, topologies/GEMM_mnk/NCF.csv: layers 4, 6, 9 and 12."""
    shapes = [(layer.m, layer.n, layer.k) for layer in BY_NAME["NCF"].layers]
    assert shapes == [(2048, 256, 256), (2048, 128, 256), (2048, 64, 128), (2048, 1, 128)]


def test_which_have_no_dx():
    """First layers, but where embeddings learn before them."""
    for network in NETWORKS:
        without = [layer for layer in network.layers if not layer.has_dx]
        assert len(without) == (network.name not in ("NCF", "BERT", "T5")), network.name
        assert not without or without[0] is network.layers[0]


def test_depthwise():
    found = [layer for network in NETWORKS for layer in network.layers if layer.depthwise]
    assert len(found) == 13
    assert {(layer.k, layer.n) for layer in found} == {(9, 1)}


def test_a_convolution():
    layer = conv(14, 256, 512, 3, repeats=2)
    assert (layer.m, layer.k, layer.n) == (196, 2304, 512)
    assert layer.macs == 2 * 196 * 2304 * 512
    assert layer.parameters == 2 * 2304 * 512


def test_scores_have_no_parameters():
    scores = Layer(m=512, k=64, n=512, products=12, weights=False)
    assert (scores.parameters, scores.macs, scores.depthwise) == (0, 12 * 512 * 64 * 512, False)


def test_mistakes():
    with pytest.raises(ValueError, match=r"^k must be an integer in 1\.\.16777216, not 0$"):
        Layer(m=1, k=0, n=1)
