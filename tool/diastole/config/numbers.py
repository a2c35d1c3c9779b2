"""Numbers of published accelerators, as defaults of several keys at once: the key `numbers`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import BaseModel

Document = Mapping[str, Any]
"""Keys, and tables of keys."""

REPLACED = ("format", "block", "scale", "accumulator")
"""Tables with keys that belong to the replaced numbers, except the keys of :data:`OTHER_KEYS`."""
OTHER_KEYS = {"scale": ("source", "history", "margin"), "accumulator": ("fraction", "headroom")}


def is_table(value: object) -> TypeGuard[Document]:
    """Return whether a value is a table, with keys."""
    return isinstance(value, Mapping)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Published numbers.

    - ``about``: authors and publication.
    - ``keys``: values of keys, by table, for keys that the file does not set.
    - ``master``, ``master_rounding``: format of the weights that `train` keeps, and their rounding.
    - ``gradient``, ``loss_scale``, ``loss_scale_floor``: options of `train`. Without a scale of the
      loss, None and no pairs.
    """

    about: str
    keys: Mapping[str, Mapping[str, int | str]]
    master: str
    master_rounding: str = "stochastic-b"
    gradient: str = "float32"
    loss_scale: int | None = None
    loss_scale_floor: tuple[tuple[int, int], ...] = ()

    def under(self, document: Document) -> dict[str, Any]:
        """Return ``document`` with the keys of the numbers where ``document`` has none."""
        result = dict(document)
        for table, keys in self.keys.items():
            own = result.get(table, {})
            if isinstance(own, BaseModel):  # a table of a configuration made in Python
                own = own.model_dump(exclude_unset=True)
            if is_table(own):  # a value that is no table is a mistake, reported later
                result[table] = {**keys, **own}
        return result

    def instead(self, document: Document) -> dict[str, Any]:
        """Return ``document`` with these numbers instead of its own: formats with groups and scale
        rules, accumulators, and all further keys of the numbers."""
        result = dict(document)
        for table in dict.fromkeys((*REPLACED, *self.keys)):
            values = result.pop(table, {})
            if is_table(values):
                others = OTHER_KEYS.get(table, ()) if table in REPLACED else tuple(values)
                own = self.keys.get(table, {})
                result[table] = {
                    n: each for n, each in values.items() if n in others and n not in own
                }
        return self.under(result)


def _formats(x: str, w: str, dy: str) -> dict[str, str]:
    return {"x": x, "w": w, "dy": dy}


_ACCUMULATOR = {"kind": "float", "mantissa": 9, "chunk": 64}

NUMBERS = {
    # E5M2 throughout, sums of 64 products added in (1,6,9).
    "ibm-fp8": Numbers(
        about="Wang et al., NeurIPS 2018, arXiv 1812.08011",
        keys={"format": _formats(*("fp8_e5m2",) * 3), "accumulator": _ACCUMULATOR},
        master="e6m9",
    ),
    # E4M3 forward, E5M2 backward. Accumulators as in ibm-fp8, by the same group of authors.
    "hfp8": Numbers(
        about="Sun et al., NeurIPS 2019",
        keys={
            "format": _formats("fp8_e4m3", "fp8_e4m3", "fp8_e5m2"),
            "accumulator": _ACCUMULATOR,
        },
        master="e6m9",
    ),
    # E5M2 throughout, without scales of tensors. The scale of the loss, 2^13 at first, has a rising
    # floor. Gradients beyond the largest number are Inf, and the scale then falls. Sums in float32.
    "intel-fp8": Numbers(
        about="Mellempudi et al., 2019, arXiv 1905.12334",
        keys={
            "format": _formats(*("fp8_e5m2",) * 3),
            "scale": {"source": "host"},
            "overflow": {"dy": "specification"},
            "rounding": {"x": "stochastic-b", "w": "nearest", "dy": "stochastic-b"},
            "accumulator": {"kind": "float", "mantissa": 23, "chunk": 64},
        },
        master="fp16",
        master_rounding="nearest",
        gradient="fp8_e5m2",
        loss_scale=13,
        loss_scale_floor=((40_000, 13), (150_000, 15)),
    ),
}


def numbers_of(document: object) -> Numbers | None:
    """Return the numbers that a document names; None if the document names no known numbers."""
    name = document.get("numbers") if is_table(document) else None
    return NUMBERS.get(name) if isinstance(name, str) else None
