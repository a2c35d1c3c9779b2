"""Evaluate chains in float64, to test their mathematics without a machine's rounding."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diastole_sim.golden.vector.arithmetic import FLOAT64
from diastole_sim.golden.vector.chain_run import ChainRun, Input, run_chain
from diastole_sim.golden.vector.order import Order
from diastole_sim.program.chain import INVERSE_LOSS_SCALE, LOSS_SCALE, Chain, Port
from diastole_sim.spec.micro import CONSTANTS
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder, Walk

Doubles = NDArray[np.float64]
COLUMN_ORDERS = (PanelOrder.BLOCK_COLUMN, PanelOrder.BLOCK_COLUMN_ZERO_FIRST)


def in_float64(
    chain: Chain,
    inputs: Mapping[str, ArrayLike],
    *,
    shape: tuple[int, int],
    constants: Mapping[str, float] | None = None,
    block: int = 4,
    kinds: Mapping[str, Kind] | None = None,
    loss_scale: float = 1.0,
) -> dict[str, Doubles]:
    """Return the outputs of a chain by name, computed in float64.

    - ``shape``: shape of the chain's tensor.
    - ``inputs``: arrays by name. A tensor has (rows, cols), a vector of columns (cols,), a vector
      of rows or labels (rows,). A panel stream with a number for every row slot of a column of
      blocks has (B, cols). Column sums that begin in the chain need no input.
    - ``constants``: values of the constants without a value in the chain.
    - ``kinds``: kinds of streams as in :meth:`Chain.assembled`.

    Shapes of outputs follow the rules for inputs; a constant has the shape (). KeyError if an input
    or a constant is missing.
    """
    chosen = chain.kinds(kinds or {})
    walk = Walk(rows=shape[0], cols=shape[1], block=block, by_columns=chain.by_columns)
    places = _Places(chain, chosen, walk)
    panel = np.full((places.vectors, block), np.nan)
    streams: dict[int, Input] = {}
    for name, port in chain.inputs.items():
        if chosen[name] == Kind.PANEL:
            place = streams[port.number] = places.descriptor(name, port)
            if port.order != PanelOrder.BLOCK_COLUMN_ZERO_FIRST:
                blocks = _split(np.asarray(inputs[name], np.float64), port.order, walk)
                panel[place.address :][: blocks.size // block] = blocks.reshape(-1, block)
        else:
            streams[port.number] = _broadcast(np.asarray(inputs[name], np.float64), chosen[name])
    result = run_chain(
        ChainRun(
            program=chain.assembled(block, kinds=kinds),
            order=Order.of_walk(walk),
            inputs=streams,
            outputs={
                port.number: places.descriptor(name, port) for name, port in chain.outputs.items()
            },
            panel=panel,
            constants=_constants(chain, constants or {}, loss_scale),
            arithmetic=FLOAT64,
        )
    )
    outputs: dict[str, Doubles] = {}
    for name, port in chain.outputs.items():
        place = places.descriptor(name, port)
        if place.kind == Kind.PANEL:
            outputs[name] = _join(panel[place.address :], port.order, walk)
        else:
            outputs[name] = np.asarray(result.values[port.number])
    return outputs


def _constants(chain: Chain, constants: Mapping[str, float], loss_scale: float) -> Doubles:
    values = np.full(CONSTANTS, np.nan)
    for name, number in chain.numbered().items():
        value = chain.constants[name]
        values[number] = constants[name] if value is None else value
    values[LOSS_SCALE], values[INVERSE_LOSS_SCALE] = loss_scale, 1 / loss_scale
    return values


class _Places:
    """Places of streams in the panel. Every name has its own place."""

    def __init__(self, chain: Chain, kinds: Mapping[str, Kind], walk: Walk):
        self.chain, self.chosen, self.walk = chain, kinds, walk
        self.vectors = 0
        self._first: dict[str, int] = {}
        for name, port in {**chain.inputs, **chain.outputs}.items():
            if kinds[name] == Kind.PANEL:
                self._first[name] = self.vectors
                self.vectors += block_count(port.order, walk) * walk.block

    def descriptor(self, name: str, port: Port) -> Descriptor:
        """Return the descriptor of a stream, with the kind and the place in the panel."""
        kind = self.chosen[name]
        if kind != Kind.PANEL:
            return Descriptor(kind=kind)
        pitch = self.walk.block_cols if port.order == PanelOrder.BLOCK else 0
        return Descriptor(kind=kind, address=self._first[name], aux=port.order, pitch=pitch)


def block_count(order: PanelOrder, walk: Walk) -> int:
    """Return the number of blocks, of B vectors each, that a stream takes in the panel."""
    if order == PanelOrder.BLOCK:
        return walk.block_rows * walk.block_cols
    return walk.block_rows if order == PanelOrder.BLOCK_ROW else walk.block_cols


def _broadcast(values: Doubles, kind: Kind) -> Doubles:
    if kind in (Kind.ROW, Kind.LABELS):
        return values[:, None]
    return values[None, :] if kind == Kind.COLUMN else values


def _split(values: Doubles, order: PanelOrder, walk: Walk) -> Doubles:
    """Return a tensor or vector as blocks of the panel, (blocks, B, B)."""
    side = walk.block
    if order == PanelOrder.BLOCK_ROW:
        values = np.repeat(values[:, None], side, axis=1)
    padded = np.zeros([-(-length // side) * side for length in values.shape])
    padded[: values.shape[0], : values.shape[1]] = values
    tiles = padded.reshape(padded.shape[0] // side, side, padded.shape[1] // side, side)
    return tiles.swapaxes(1, 2).reshape(-1, side, side)


def _join(panel: Doubles, order: PanelOrder, walk: Walk) -> Doubles:
    side, count = walk.block, block_count(order, walk)
    high = walk.block_rows if order == PanelOrder.BLOCK else 1
    high = count if order == PanelOrder.BLOCK_ROW else high
    tiles = panel[: count * side].reshape(high, count // high, side, side).swapaxes(1, 2)
    whole = tiles.reshape(high * side, count // high * side)
    if order == PanelOrder.BLOCK_ROW:
        return whole[: walk.rows, 0]
    rows = side if order in COLUMN_ORDERS else walk.rows
    return whole[:rows, : walk.cols]
