"""Shapes of eleven networks, as the products of a systolic array."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from diastole.files.layers import NamedLayer
from diastole_sim.spec.require import require_int


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Y (m x n) = X (m x k) W (k x n) for one sample; a convolution by im2col.

    - ``repeats``: number of equal layers.
    - ``products``: products of one layer with different operands: attention heads, or the channels
      of a depthwise convolution.
    - ``weights``: True if W belongs to the layer, and a batch multiplies m. False if W belongs to
      the sample (attention), and a batch multiplies ``products``.
    - ``has_dx``: True if an earlier part of the network learns.
    """

    m: int
    k: int
    n: int
    repeats: int = 1
    products: int = 1
    weights: bool = True
    has_dx: bool = True

    def __post_init__(self) -> None:
        for name in ("m", "k", "n", "repeats", "products"):
            require_int(name, getattr(self, name), 1, 1 << 24)

    @property
    def depthwise(self) -> bool:
        return self.weights and self.products > 1

    @property
    def macs(self) -> int:
        """Multiplications of one sample."""
        return self.m * self.k * self.n * self.products * self.repeats

    @property
    def parameters(self) -> int:
        """Number of weights, without biases."""
        return self.k * self.n * self.products * self.repeats if self.weights else 0


@dataclass(frozen=True)
class NetworkShapes:
    """A network: ``layers`` in order, with equal layers listed once."""

    name: str
    layers: tuple[Layer, ...]

    @property
    def macs(self) -> int:
        return sum(layer.macs for layer in self.layers)

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)


def conv(side: int, channels: int, filters: int, kernel: int = 1, **more: int | bool) -> Layer:
    """Return a convolution. ``side``: side of the square output, in pixels."""
    return replace(Layer(m=side**2, k=channels * kernel**2, n=filters), **more)


def dense(*widths: int, rows: int = 1) -> Iterator[Layer]:
    """Yield fully connected layers from width to width."""
    for k, n in pairwise(widths):
        yield Layer(m=rows, k=k, n=n)


def first(layers: Iterator[Layer]) -> Iterator[Layer]:
    """Yield the layers, where nothing before the first layer learns."""
    yield replace(next(layers), has_dx=False)
    yield from layers


# He, Zhang, Ren, Sun, CVPR 2016, arXiv:1512.03385, table 1; strides in the first 1 x 1 of a stage.


def bottlenecks(side: int, channels: int, width: int, count: int) -> Iterator[Layer]:
    """Yield a stage of ``count`` blocks 1x1, 3x3, 1x1. The first block projects its input for the
    addition."""
    yield conv(side, channels, width)
    yield conv(side, width, width, 3, repeats=count)
    yield conv(side, width, 4 * width, repeats=count)
    yield conv(side, channels, 4 * width)
    yield conv(side, 4 * width, width, repeats=count - 1)


def resnet_to_stage_4() -> Iterator[Layer]:
    yield conv(112, 3, 64, 7, has_dx=False)
    yield from bottlenecks(56, 64, 64, 3)
    yield from bottlenecks(28, 256, 128, 4)
    yield from bottlenecks(14, 512, 256, 6)


def resnet_50() -> Iterator[Layer]:
    yield from resnet_to_stage_4()
    yield from bottlenecks(7, 1024, 512, 3)
    yield from dense(2048, 1000)


# Ren, He, Girshick, Sun, NeurIPS 2015, arXiv:1506.01497: the region proposal network, 9 anchors, on
# the first four stages of ResNet-50 at 224 x 224, as in SCALE-Sim's topology of this name.


def faster_rcnn() -> Iterator[Layer]:
    yield from resnet_to_stage_4()
    yield conv(14, 1024, 512, 3)
    yield conv(14, 512, 4 * 9)
    yield conv(14, 512, 2 * 9)


# Szegedy and others, CVPR 2015, arXiv:1409.4842, table 1, without the auxiliary classifiers.
# SCALE-Sim's topology differs from the table in the modules 4c and 5a.

INCEPTIONS = {
    "3a": (28, 192, 64, 96, 128, 16, 32, 32),
    "3b": (28, 256, 128, 128, 192, 32, 96, 64),
    "4a": (14, 480, 192, 96, 208, 16, 48, 64),
    "4b": (14, 512, 160, 112, 224, 24, 64, 64),
    "4c": (14, 512, 128, 128, 256, 24, 64, 64),
    "4d": (14, 512, 112, 144, 288, 32, 64, 64),
    "4e": (14, 528, 256, 160, 320, 32, 128, 128),
    "5a": (7, 832, 256, 160, 320, 32, 128, 128),
    "5b": (7, 832, 384, 192, 384, 48, 128, 128),
}
"""Side, channels; 1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, after pooling."""


def inception(name: str) -> Iterator[Layer]:
    side, channels, one, reduced_three, three, reduced_five, five, pooled = INCEPTIONS[name]
    yield conv(side, channels, one)
    yield conv(side, channels, reduced_three)
    yield conv(side, reduced_three, three, 3)
    yield conv(side, channels, reduced_five)
    yield conv(side, reduced_five, five, 5)
    yield conv(side, channels, pooled)


def googlenet() -> Iterator[Layer]:
    yield conv(112, 3, 64, 7, has_dx=False)
    yield conv(56, 64, 64)
    yield conv(56, 64, 192, 3)
    for name in INCEPTIONS:
        yield from inception(name)
    yield from dense(1024, 1000)


# He, Liao, Zhang, Nie, Hu, Chua, WWW 2017, arXiv:1708.05031, with the sizes of MLPerf's reference:
# layers 256, 256, 128, 64 and 64 factors. A sample is 2048 pairs of user and item, the rows of
# SCALE-Sim's topology. Embeddings are looked up, and learn: every layer has dX.

NCF_ROWS = 2048


def ncf() -> Iterator[Layer]:
    yield from dense(256, 256, 128, 64, rows=NCF_ROWS)
    yield from dense(64 + 64, 1, rows=NCF_ROWS)


# Naumov and others, arXiv:1906.00091, with the sizes of its Kaggle benchmark: 13 numbers, 26
# categories of width 16, all pairs of 27 vectors. A sample is 1024 rows, those of SCALE-Sim's
# topology.

DLRM_ROWS = 1024


def dlrm() -> Iterator[Layer]:
    yield from first(dense(13, 512, 256, 64, 16, rows=DLRM_ROWS))
    yield from dense(16 + 27 * 26 // 2, 512, 256, 1, rows=DLRM_ROWS)


# Howard and others, arXiv:1704.04861, table 1: channels in, channels out, side of the output.

SEPARABLE = (
    (32, 64, 112), (64, 128, 56), (128, 128, 56), (128, 256, 28), (256, 256, 28), (256, 512, 14),
    *((512, 512, 14),) * 5, (512, 1024, 7), (1024, 1024, 7),
)  # fmt: skip


def mobilenet() -> Iterator[Layer]:
    yield conv(112, 3, 32, 3, has_dx=False)
    for channels, filters, side in SEPARABLE:
        yield conv(side, 1, 1, 3, products=channels)
        yield conv(side, channels, filters)
    yield from dense(1024, 1000)


# Redmon, Farhadi, CVPR 2017, arXiv:1612.08242; darknet's tiny-yolo-voc.cfg at 416 x 416.


def yolo_tiny() -> Iterator[Layer]:
    yield conv(416, 3, 16, 3, has_dx=False)
    for shift in range(5):
        yield conv(208 >> shift, 16 << shift, 32 << shift, 3)
    yield conv(13, 512, 1024, 3)
    yield conv(13, 1024, 1024, 3)
    yield conv(13, 1024, 125)


# Devlin, Chang, Lee, Toutanova, NAACL 2019, arXiv:1810.04805: the encoder of BERT base, 512 tokens.
# Raffel and others, JMLR 2020, arXiv:1910.10683: T5 base, 512 tokens in and 512 out, with the
# product that yields words.

TOKENS, WIDTH, HEADS, DEPTH, VOCABULARY = 512, 768, 12, 12, 32128


def attention(count: int, tokens: int = TOKENS) -> Iterator[Layer]:
    """Yield queries, keys, values and output; scores; the products of scores and values."""
    yield Layer(m=tokens, k=WIDTH, n=WIDTH, repeats=4 * count)
    head = WIDTH // HEADS
    yield Layer(m=tokens, k=head, n=tokens, products=HEADS, weights=False, repeats=count)
    yield Layer(m=tokens, k=tokens, n=head, products=HEADS, weights=False, repeats=count)


def feed_forward(count: int, tokens: int = TOKENS) -> Iterator[Layer]:
    yield Layer(m=tokens, k=WIDTH, n=4 * WIDTH, repeats=count)
    yield Layer(m=tokens, k=4 * WIDTH, n=WIDTH, repeats=count)


def bert() -> Iterator[Layer]:
    yield from attention(DEPTH)
    yield from feed_forward(DEPTH)


def t5() -> Iterator[Layer]:
    yield from attention(3 * DEPTH)  # the decoder attends to itself and to the encoder
    yield from feed_forward(2 * DEPTH)
    yield Layer(m=TOKENS, k=WIDTH, n=VOCABULARY)


# Radford and others, Language models are unsupervised multitask learners, 2019: the smallest model,
# 1024 tokens, with the product that yields words.

GPT2_TOKENS, GPT2_VOCABULARY = 1024, 50257


def gpt_2() -> Iterator[Layer]:
    yield from attention(DEPTH, GPT2_TOKENS)
    yield from feed_forward(DEPTH, GPT2_TOKENS)
    yield Layer(m=GPT2_TOKENS, k=WIDTH, n=GPT2_VOCABULARY)


# Touvron and others, arXiv:2302.13971, table 2: the model of 6.7 * 10^9 parameters, 2048 tokens.
# Feed-forward layers have a gate beside the first of two products.

LLAMA_TOKENS, LLAMA_WIDTH, LLAMA_HIDDEN, LLAMA_HEADS = 2048, 4096, 11008, 32
LLAMA_DEPTH, LLAMA_VOCABULARY = 32, 32000


def llama_7b() -> Iterator[Layer]:
    tokens, width, hidden, heads = LLAMA_TOKENS, LLAMA_WIDTH, LLAMA_HIDDEN, LLAMA_HEADS
    head = width // heads
    yield Layer(m=tokens, k=width, n=width, repeats=4 * LLAMA_DEPTH)
    for k, n in ((head, tokens), (tokens, head)):
        yield Layer(m=tokens, k=k, n=n, products=heads, weights=False, repeats=LLAMA_DEPTH)
    yield Layer(m=tokens, k=width, n=hidden, repeats=2 * LLAMA_DEPTH)
    yield Layer(m=tokens, k=hidden, n=width, repeats=LLAMA_DEPTH)
    yield Layer(m=tokens, k=width, n=LLAMA_VOCABULARY)


NETWORKS = tuple(
    NetworkShapes(name, tuple(layers))
    for name, layers in (
        ("Faster R-CNN", faster_rcnn()), ("GoogLeNet", googlenet()), ("NCF", ncf()),
        ("ResNet-50", resnet_50()), ("DLRM", dlrm()), ("MobileNet", mobilenet()),
        ("YOLO tiny", yolo_tiny()), ("BERT", bert()), ("T5", t5()),
    )
)  # fmt: skip

LISTS = {
    "resnet-50": resnet_50, "bert-base": bert, "gpt-2": gpt_2, "dlrm": dlrm, "mobilenet": mobilenet,
    "googlenet": googlenet, "faster-rcnn": faster_rcnn, "yolo-tiny": yolo_tiny, "ncf": ncf,
    "t5-base": t5, "llama-7b": llama_7b,
}  # fmt: skip
"""Networks by the name for users."""


def layers_of(name: str, batch: int) -> list[NamedLayer]:
    """Return the products of a network of :data:`LISTS` for a batch of samples."""
    return [
        NamedLayer(
            name=str(number),
            m=layer.m * batch if layer.weights else layer.m,
            k=layer.k,
            n=layer.n,
            repeats=layer.repeats * layer.products * (1 if layer.weights else batch),
        )
        for number, layer in enumerate(LISTS[name](), 1)
    ]
