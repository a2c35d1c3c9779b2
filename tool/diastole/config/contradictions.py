"""Which keys of a configuration, each right by itself, do not go together, in words for people."""

from collections.abc import Iterator

from diastole.config.keys import Config
from diastole_sim.spec import numerics
from diastole_sim.spec.accumulator import LONGEST_CHUNK, chunks_of
from diastole_sim.spec.formats import Format, parse_format, parse_grouping
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import summed_inside

Fault = tuple[tuple[str, ...], str]
"""The keys that a fault follows from, that which is to be mended first; what would be accepted."""

DERIVED_FROM = {
    "cell.window": tuple(f"format.{name}" for name in CLASS_NAMES),
    "accumulator.fraction": ("array.block",),
}
"""What a width depends on beside the keys that can mend it."""


MOST_SHOWN = 4
"""Of the chunks that would do."""


class _Draft(Numerics):
    """Numerics whose keys are right one by one, and perhaps not together."""

    def __post_init__(self) -> None:
        """Checks nothing."""


def contradictions(config: Config, wrong: set[str]) -> Iterator[str]:
    """Every contradiction of ``config``, a line each.

    ``wrong``: keys and tables whose values were refused; ``config`` has their defaults, and nothing
    that follows from them is said.
    """
    spent = set(wrong)
    for faults in (_misfits(config), _of_the_draft(config)):
        for keys, text in faults:
            if not spent & {*keys, *(key.partition(".")[0] for key in keys)}:
                yield text
            spent.add(keys[0])


def _of_the_draft(config: Config) -> Iterator[Fault]:
    """What is left when groups and scale rules that their formats do not take have gone."""
    values = config.numeric_values()
    for name in CLASS_NAMES:
        values[name] |= {part: None for part, _, _ in _misfitting(config, name)}
    draft = _Draft.from_dict(values)
    yield from _turned_vectors(config, draft)
    yield from _cut_chunks(config, draft)
    yield from _chunks_of_planes(draft)
    for blamed, text in numerics.contradictions(draft):
        yield blamed + tuple(k for key in blamed for k in DERIVED_FROM.get(key, ())), text


def _misfits(config: Config) -> Iterator[Fault]:
    for name in CLASS_NAMES:
        for _, keys, text in _misfitting(config, name):
            yield keys, text
    yield from _odd_cells(config)
    yield from _idle_specials(config)


def _idle_specials(config: Config) -> Iterator[Fault]:
    """More special lanes than a row of a block has elements."""
    lanes, block = config.vector.special, config.array.block
    if config.vector.enable and lanes is not None and lanes > block:
        yield (
            ("vector.special", "array.block"),
            f"vector.special must be at most array.block, {block}, not {lanes}",
        )


def _odd_cells(config: Config) -> Iterator[Fault]:
    """Rows of blocks alternate between the ports, and the banks that they go to."""
    if config.bus.ports == 1:
        return
    for name in ("rows", "cols"):
        cells = getattr(config.array, name)
        if cells % 2:
            key = f"array.{name}"
            yield (key, "bus.ports"), f"{key} must be even where bus.ports is 2, not {cells}"


def _misfitting(config: Config, name: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """What the format of a class does not take: the part of the class, its keys, and a text."""
    chosen = parse_format(getattr(config.format, name))
    grouping, scale = getattr(config.block, name), getattr(config.scale, name)
    where = f"where format.{name} is {chosen.name}"
    if grouping is not None and parse_grouping(grouping).kind not in chosen.groupings:
        accepted = _groups(chosen, chosen.groupings, config.array.block)
        keys = (f"block.{name}", f"format.{name}", "array.block")
        yield "grouping", keys, f'block.{name} must be {accepted} {where}, not "{grouping}"'
    if scale is not None and scale not in chosen.scale_rules:
        rules = ", ".join(chosen.scale_rules)
        accepted = f"one of {rules}" if rules else "left out"
        keys = (f"scale.{name}", f"format.{name}")
        yield "scale", keys, f'scale.{name} must be {accepted} {where}, not "{scale}"'


def _turned_vectors(config: Config, draft: Numerics) -> Iterator[Fault]:
    """The turning buffers at the array's edge turn blocks, whose elements all have one scale."""
    if config.array.transpose != "edge":
        return
    for name in ("w", "dy"):
        chosen = draft.tensor_class(name)
        if not chosen.two_copies:
            continue
        kinds = tuple(kind for kind in chosen.format.groupings if kind != "vector")
        accepted = _groups(chosen.format, kinds, draft.block)
        default = "" if getattr(config.block, name) else f", the default of {chosen.format.name}"
        yield (
            (f"block.{name}", f"format.{name}", "array.transpose", "array.block"),
            (
                f"block.{name} must be {accepted} where array.transpose is edge (in_place takes "
                f'vectors), not "{chosen.grouping}"{default}'
            ),
        )


def _cut_chunks(config: Config, draft: Numerics) -> Iterator[Fault]:
    """Passes of the array sum a part of a contraction before anything is accumulated."""
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
    known = chunks_of(parts.values())
    if known:
        shown = ", ".join(map(str, known[:MOST_SHOWN]))
        more = " and so on" if len(known) > MOST_SHOWN else ""
        advice = f"{shown}{more} would do"
    else:
        advice = f"none up to {LONGEST_CHUNK} is, so accumulator.kind must be integer"
    blamed = (f"array.{sides[name]}" for name in parts)
    yield (
        ("accumulator.chunk", "accumulator.kind", "array.block", "array.transpose", *blamed),
        (
            "accumulator.chunk must be a multiple of the elements of a contraction that a pass "
            f"sums, {each}: {advice}, not {chunk}"
        ),
    )


def _chunks_of_planes(draft: Numerics) -> Iterator[Fault]:
    """The planes of a part of the contraction come one after the other."""
    planes = [name for name in CLASS_NAMES if draft.tensor_class(name).format.planes]
    if draft.accumulator is None or not planes:
        return
    yield (
        ("accumulator.kind", f"format.{planes[0]}"),
        (
            f"accumulator.kind must be integer where format.{planes[0]} is fast, whose planes are "
            'not summed chunk by chunk, not "float"'
        ),
    )


def _groups(chosen: Format, kinds: tuple[str, ...], block: int) -> str:
    """Groups of some kinds in words, with an example of each that the array takes."""
    side = max(block, chosen.group or 0)
    words = {
        "square": f'squares such as "{side}x{side}"',
        "vector": f'vectors such as "1x{max(side, 2)}"',
        "tensor": '"tensor"',
    }
    return " or ".join(words[kind] for kind in kinds)
