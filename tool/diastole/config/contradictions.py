"""Find keys of a configuration with valid values that contradict each other, in words for
people."""

from collections.abc import Iterator

from diastole.config.keys import Config
from diastole_sim.spec import numerics
from diastole_sim.spec.accumulator import LONGEST_CHUNK, chunks_of
from diastole_sim.spec.formats import Format, parse_format, parse_grouping
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import summed_inside

Fault = tuple[tuple[str, ...], str]
"""Keys that a fault follows from, first the key to correct, and the text of accepted values."""

DERIVED_FROM = {
    "cell.window": tuple(f"format.{name}" for name in CLASS_NAMES),
    "accumulator.fraction": ("array.block",),
}
"""Keys on which a width depends, besides the keys that can correct the width."""


MAX_LISTED = 4
"""Number of accepted chunks in a message."""


class _Draft(Numerics):
    """Numerics without checks: each key is valid, but the keys may contradict each other."""

    def __post_init__(self) -> None:
        """Check nothing."""


def contradictions(config: Config, wrong: set[str]) -> Iterator[str]:
    """Yield every contradiction of ``config``, as a line of text. ``wrong`` as for
    :func:`contradicting_keys`."""
    return (text for _, text in contradicting_keys(config, wrong))


def contradicting_keys(config: Config, wrong: set[str]) -> Iterator[Fault]:
    """Yield every contradiction of ``config``, with the keys that contradict each other.

    ``wrong`` holds keys and tables with refused values, for which ``config`` has the defaults.
    Contradictions that follow from the defaults are not reported.
    """
    spent = set(wrong)
    for faults in (_misfits(config), _draft_contradictions(config)):
        for keys, text in faults:
            if not spent & {*keys, *(key.partition(".")[0] for key in keys)}:
                yield keys, text
            spent.add(keys[0])


def _draft_contradictions(config: Config) -> Iterator[Fault]:
    """Yield faults of the numerics, without the groups and scale rules that the formats do not
    accept."""
    values = config.numeric_values()
    for name in CLASS_NAMES:
        values[name] |= {part: None for part, _, _ in _misfitting(config, name)}
    draft = _Draft.from_dict(values)
    yield from _transposed_vectors(config, draft)
    yield from _cut_chunks(config, draft)
    yield from _plane_chunks(draft)
    for blamed, text in numerics.contradictions(draft):
        yield blamed + tuple(k for key in blamed for k in DERIVED_FROM.get(key, ())), text


def _misfits(config: Config) -> Iterator[Fault]:
    for name in CLASS_NAMES:
        for _, keys, text in _misfitting(config, name):
            yield keys, text
    yield from _odd_cells(config)
    yield from _idle_specials(config)


def _idle_specials(config: Config) -> Iterator[Fault]:
    """Yield a fault for more special lanes than elements in a row of a block."""
    lanes, block = config.vector.special, config.array.block
    if config.vector.enable and lanes is not None and lanes > block:
        yield (
            ("vector.special", "array.block"),
            f"vector.special must be at most array.block, {block}, not {lanes}",
        )


def _odd_cells(config: Config) -> Iterator[Fault]:
    """Yield a fault for an odd number of rows or columns of cells with two bus ports. Rows of
    blocks, and the banks of the rows, alternate between the ports."""
    if config.bus.ports == 1:
        return
    for name in ("rows", "cols"):
        cells = getattr(config.array, name)
        if cells % 2:
            key = f"array.{name}"
            yield (key, "bus.ports"), f"{key} must be even where bus.ports is 2, not {cells}"


def _misfitting(config: Config, name: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield groups and scale rules that the format of a class does not accept: the part of the
    class, the keys, and a text."""
    format = parse_format(getattr(config.format, name))
    grouping, scale = getattr(config.block, name), getattr(config.scale, name)
    where = f"where format.{name} is {format.name}"
    if grouping is not None and parse_grouping(grouping).kind not in format.groupings:
        accepted = _groups(format, format.groupings, config.array.block)
        keys = (f"block.{name}", f"format.{name}", "array.block")
        yield "grouping", keys, f'block.{name} must be {accepted} {where}, not "{grouping}"'
    if scale is not None and scale not in format.scale_rules:
        rules = ", ".join(format.scale_rules)
        accepted = f"one of {rules}" if rules else "left out"
        keys = (f"scale.{name}", f"format.{name}")
        yield "scale", keys, f'scale.{name} must be {accepted} {where}, not "{scale}"'


def _transposed_vectors(config: Config, draft: Numerics) -> Iterator[Fault]:
    """Yield a fault for vector groups of W or dY where array.transpose is edge. The buffers at the
    array's edge transpose blocks, and all elements of a block must have one scale."""
    if config.array.transpose != "edge":
        return
    for name in ("w", "dy"):
        storage = draft.tensor_class(name)
        if not storage.two_copies:
            continue
        kinds = tuple(kind for kind in storage.format.groupings if kind != "vector")
        accepted = _groups(storage.format, kinds, draft.block)
        default = "" if getattr(config.block, name) else f", the default of {storage.format.name}"
        yield (
            (f"block.{name}", f"format.{name}", "array.transpose", "array.block"),
            (
                f"block.{name} must be {accepted} where array.transpose is edge (in_place takes "
                f'vectors), not "{storage.grouping}"{default}'
            ),
        )


def _cut_chunks(config: Config, draft: Numerics) -> Iterator[Fault]:
    """Yield a fault if a chunk is no multiple of the part of a contraction that a pass of the array
    sums. A pass sums its part before anything is accumulated."""
    if draft.accumulator is None or draft.accumulator.chunk % draft.block:
        return
    array = config.array
    in_place = array.transpose == "in_place"
    parts = summed_inside(draft, rows=array.rows, cols=array.cols, in_place=in_place)
    chunk = draft.accumulator.chunk
    if not any(chunk % part for part in parts.values()):
        return
    sides = {"east": "cols", "north": "rows"}
    each = " and ".join(
        f"array.{sides[name]} x array.block = {part} to the {name}" for name, part in parts.items()
    )
    chunks = chunks_of(parts.values())
    if chunks:
        shown = ", ".join(map(str, chunks[:MAX_LISTED]))
        more = " and so on" if len(chunks) > MAX_LISTED else ""
        advice = f"use {shown}{more}"
    else:
        advice = (
            f"no chunk up to {LONGEST_CHUNK} is such a multiple: set accumulator.kind to integer"
        )
    blamed = (f"array.{sides[name]}" for name in parts)
    yield (
        ("accumulator.chunk", "accumulator.kind", "array.block", "array.transpose", *blamed),
        (
            f"accumulator.chunk must be a multiple of {each}, the elements of a "
            f"contraction that a pass sums, not {chunk}: {advice}"
        ),
    )


def _plane_chunks(draft: Numerics) -> Iterator[Fault]:
    """Yield a fault for float accumulators with the format fast: the planes of a part of the
    contraction follow one after the other, and are not summed chunk by chunk."""
    planes = [name for name in CLASS_NAMES if draft.tensor_class(name).format.planes]
    if draft.accumulator is None or not planes:
        return
    yield (
        ("accumulator.kind", f"format.{planes[0]}"),
        (
            f"accumulator.kind must be integer where format.{planes[0]} is fast, not "
            '"float": the planes of fast are not summed chunk by chunk'
        ),
    )


def _groups(format: Format, kinds: tuple[str, ...], block: int) -> str:
    """Return some kinds of groups in words, with an example of every kind for this array."""
    side = max(block, format.group or 0)
    words = {
        "square": f'squares such as "{side}x{side}"',
        "vector": f'vectors such as "1x{max(side, 2)}"',
        "tensor": '"tensor"',
    }
    return " or ".join(words[kind] for kind in kinds)
