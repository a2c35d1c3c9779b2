"""Select sizes of the converter by the class of a tensor, as signals."""

from amaranth.hdl import Array, Const, Signal, Value

from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def by_class(m, cls: Value, values, name: str) -> Value:
    """Return the entry of ``values`` for the class ``cls``: a constant if all entries are equal."""
    values = list(values)
    if len(set(values)) == 1:
        return Const(values[0])
    chosen = Signal(range(max(values) + 1), name=name)
    m.d.comb += chosen.eq(Array(values)[cls])
    return chosen


def of_vectors(m, cls: Value, sizes: ConverterSizes, values, name: str) -> Value:
    """Return :func:`by_class` for classes with vector groups; any value for a class without vector
    groups."""
    values = list(values)
    smallest = min(value for value, vectors in zip(values, sizes.vectors, strict=True) if vectors)
    pairs = zip(values, sizes.vectors, strict=True)
    return by_class(m, cls, [value if vectors else smallest for value, vectors in pairs], name)
