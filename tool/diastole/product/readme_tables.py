"""Make tables for the README of a product: ports, tensor classes, operations, the first run."""

import textwrap
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from diastole.product.example import FirstRun
from diastole.product.facts import ProductFacts
from diastole_hw.ports import bus_of
from diastole_sim.spec.command_table import COMMAND_BYTES, PRODUCTS
from diastole_sim.spec.formats import Format
from diastole_sim.spec.image import Bytes, GroupLayout
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.operations import FORWARD, OPERAND_BY_CLASS, Operation
from diastole_sim.spec.reference import table
from diastole_sim.spec.rounding import is_stochastic

BYTES_A_LINE = 16
_CONVERT_FIELDS = (
    "`address_x`: floats; `address_w`: image; `address_dy`: image of the second copy in classes "
    "with two copies; `class_x`: class; `tag`, `step`: any numbers"
)


def pinout(facts: ProductFacts) -> list[str]:
    """Return a table of all ports, with the bus of every port."""
    rows = (
        (port["name"], port["direction"], str(port["width"]), bus_of(port["name"]))
        for port in facts.ports
    )
    return table("port", "direction", "bits", "for", rows=rows)


def facts_table(facts: ProductFacts) -> list[str]:
    """Return a table of the main properties of the machine."""
    plan = facts.config.plan
    bits = sum(m["width"] * m["depth"] * m["instances"] for m in facts.memories)
    sums = f"float, {plan.mantissa} bits below the leading bit" if plan.floats else "integer"
    rows: list[tuple[str, ...]] = [
        ("array", f"{plan.rows} x {plan.cols} cells of B x B multipliers, B = {plan.block}"),
        ("multipliers", str(plan.macs)),
        ("accumulators", f"{sums}, {plan.numerics.accumulator_bits} bits; see *Numbers*"),
        ("bus to memory", f"{plan.ports} of {plan.data_width} bits"),
        ("memories on the chip", f"{bits} bits in {len(facts.memories)} shapes"),
        ("vector unit", f"{plan.block} lanes" if plan.vector else "none"),
        ("configuration", f"`{facts.config.config_sha256}`"),
    ]
    return table("property", "this machine", rows=rows)


def classes_table(facts: ProductFacts) -> list[str]:
    """Return a table of the tensor classes: format, groups, copies, and the sizes within an
    image."""
    numerics = facts.config.numerics
    rows: list[tuple[str, ...]] = []
    for number, name in enumerate(CLASS_NAMES):
        storage = numerics.tensor_class(name)
        group = GroupLayout.of(
            storage, block=numerics.block, data_width=facts.config.bus.data_width
        )
        copies = 2 if storage.two_copies else 1
        planes = numerics.planes_of(name)
        cells = (
            *(f"{OPERAND_BY_CLASS[name].name} ({number})", storage.format.name, storage.grouping),
            *(storage.rounding, copies, "1" if planes == (1,) else " or ".join(map(str, planes))),
            *(group.element_bits, group.header_bytes, group.exponent_bytes),
            *(group.group_bytes - group.exponent_bytes, numerics.block if copies > 1 else 1),
            2 - copies,
        )
        rows.append(tuple(map(str, cells)))
    heads = ("tensor (class)", "format", "groups", "rounding", "copies", "planes", "b")
    return table(*heads, "H", "E", "L", "P", "F", rows=rows)


def operations_table(facts: ProductFacts) -> list[str]:
    """Return a table of the operations: the equation, the addresses to read, the addresses to
    write."""
    numerics = facts.config.numerics

    def reads(operation: Operation) -> Iterable[str]:
        for read in operation.reads:
            two = numerics.tensor_class(read.operand.tensor_class).two_copies
            if not (read.second and not two):
                copy = f", copy {read.copy + 1}" if two else ""
                yield f"`{read.field}`: image of {read.operand.name}{copy}"

    rows: list[tuple[str, ...]] = [
        (
            "convert",
            "image of a tensor of M x N floats",
            _CONVERT_FIELDS,
        )
    ]
    for opcode, operation in PRODUCTS.items():
        equations = (
            f"{p.result.name} = {_factor(p.streaming.name, p.streaming.columns == p.contraction)} "
            f"{_factor(p.stationary.name, p.stationary.rows == p.contraction)}"
            for p in operation.products
        )
        written = (
            f"`{field}`: {tensor.name}"
            for field, tensor in zip(operation.result_fields, operation.results, strict=True)
        )
        fields = "; ".join([*reads(operation), *written])
        rows.append((opcode.name.lower(), ", ".join(equations), fields))
    return table("operation", "result", "addresses", rows=rows)


def _factor(name: str, plain: bool) -> str:
    return name if plain else f"{name}^T"


def value_lines(facts: ProductFacts) -> list[str]:
    """Return the value of a stored element as a formula, a line per format."""
    classes = {name: facts.config.numerics.tensor_class(name) for name in CLASS_NAMES}
    lines: list[str] = []
    for each in dict.fromkeys(one.format for one in classes.values()):
        lines += [f"- {each.name}: {_value(each)}"]
    return lines


def _value(format: Format) -> str:
    if format.planes:
        return (
            "c * 2^(s - 126 - m), where c is the magnitude code of m bits and s is the exponent "
            "byte; a plane holds two bits of c, and the first plane holds the highest bits"
        )
    if not format.exponent_bits:
        shift = 127 + format.fraction_bits - 1
        return f"c * 2^(s - {shift}), where c is the magnitude code and s is the exponent byte"
    digits, bias = format.fraction_bits, format.bias
    code = (
        f"f = c >> {digits} and t = c & {2**digits - 1}; v(c) = (1 + t / {2**digits}) * "
        f"2^(f - {bias}), or t / {2**digits} * 2^{1 - bias} if f is 0;"
    )
    if format.two_level:
        return (
            f"{code} the value is v(c) * u * 2^T, where u is the E4M3 number with the exponent "
            "byte as the code, and T is the header, 16 bits in two's complement"
        )
    shift = 127 + format.top_exponent
    return f"{code} the value is v(c) * 2^(s - {shift}), where s is the exponent byte"


def exponent_lines(facts: ProductFacts) -> list[str]:
    """Return the places of the exponents in a group of blocks. Classes with equal places share a
    line."""
    numerics = facts.config.numerics
    lines: list[str] = []
    kinds: dict[str, list[str]] = {}
    for name in CLASS_NAMES:
        kinds.setdefault(_exponents(numerics.tensor_class(name), numerics.block), []).append(name)
    for text, names in kinds.items():
        tensors = ", ".join(OPERAND_BY_CLASS[name].name for name in names)
        lines.append(f"- {tensors}: {text}")
    return lines


def _exponents(storage: TensorClass, block: int) -> str:
    if not storage.two_copies:
        return "the 8 bytes are the exponents of the 8 blocks of the group."
    size = storage.grouping.size
    runs = max(1, 8 * block // size)
    return (
        f"{runs} {'run' if runs == 1 else 'runs'} of {block} bytes. Byte {block} q + r is the "
        f"exponent of row r and of vector q of {size} elements; q = 0 is the first vector of the "
        f"row that the group meets. Block j of a row of blocks belongs to vector "
        f"floor({block} j / {size})."
    )


_SPECIAL = {
    "flag": "NaN becomes 0. Inf becomes the largest element, or 0 in a group without other numbers",
    "poison": (
        "NaN and Inf become the NaN and the Inf of the format. If the format has none, the whole "
        "group becomes NaN, and so does every result that depends on the group"
    ),
}
_CONVERSION = (
    "`convert`: {special}. FLAGS records NaN and Inf. A number beyond the largest element becomes "
    "{beyond}."
)
_ROUNDING = (
    "Rounding: nu is the part of an element that rounding drops, in units of the last place. The "
    "element is rounded up, away from zero, if the condition of the rounding holds. {rules}."
)
_PRODUCT = (
    "Products: the sum of {block} terms along the contraction is exact{window}. The sum is shifted "
    "right by d, with F = {fraction} bits below the last place of a term. d is the sum of two "
    "distances: for each operand, the exponent of the group below the largest exponent of the row "
    "along the contraction. If d <= F, no bit is lost. If d > F, the shifted sum is rounded to "
    "nearest, ties upward, and FLAGS.inexact is set even if all lost bits are 0. The shifted sums "
    "are added exactly."
)
_CHUNK = (
    "The addition is exact for {chunk} terms. The sum of {chunk} terms is rounded to {precision} "
    "significant bits, to nearest, ties to even, and added to the sum of the terms before. The new "
    "sum is rounded in the same way."
)
_RESULT = (
    "The result is rounded once to binary32, to nearest, ties to even. A result beyond the largest "
    "number of binary32 becomes Inf, and FLAGS.overflow is set."
)


def number_lines(facts: ProductFacts) -> list[str]:
    """Return the rounding rules of conversions and products, and the treatment of NaN and Inf."""
    numerics, floats = facts.config.numerics, facts.config.numerics.accumulator
    tensors: dict[str, list[str]] = {}
    for name in CLASS_NAMES:
        tensors.setdefault(_beyond(numerics, name), []).append(OPERAND_BY_CLASS[name].name)
    beyond = "; ".join(f"{text} in {', '.join(names)}" for text, names in tensors.items())
    roundings = dict.fromkeys(numerics.tensor_class(name).rounding for name in CLASS_NAMES)
    rules = [f"`{rounding}`: {_rule(rounding, numerics.random_bits)}" for rounding in roundings]
    if any(map(is_stochastic, roundings)):
        source = _DRAWN.get(numerics.rounding_kind, _HASHED)
        rules.append(f"R is {numerics.random_bits} bits of {source}")
    texts = [
        _CONVERSION.format(special=_SPECIAL[numerics.special], beyond=beyond),
        _ROUNDING.format(rules=". ".join(rules)),
        _PRODUCT.format(block=numerics.block, window=_window(numerics), fraction=numerics.fraction),
    ]
    if floats is not None:
        texts.append(_CHUNK.format(chunk=floats.chunk, precision=floats.precision))
    return [line for text in [*texts, _RESULT] for line in _item(text)]


def _beyond(numerics: Numerics, name: str) -> str:
    """Return the result of converting a finite number beyond the largest element of a class."""
    if not numerics.flags_overflow(name):
        return "the largest element"
    special = "NaN" if numerics.tensor_class(name).format.specials == "nan" else "Inf"
    if numerics.overflow_code(name) is None:
        return f"the largest element (recorded as {special} in FLAGS)"
    return f"{special} (recorded in FLAGS)"


_DRAWN = {"data": "the number itself"}
_HASHED = "a hash of SEED, the tag, the step and the place of the element"


def _rule(rounding: str, bits: int) -> str:
    """Return the condition for rounding up, with ``bits`` random bits in R."""
    return {
        "nearest": "nu > 1/2, or nu = 1/2 and the kept part is odd",
        "stochastic-a": f"floor({2**bits} nu) + R >= {2**bits}",
        "stochastic-b": f"floor({2 ** (bits + 1)} nu) + 2 R + 1 >= {2 ** (bits + 1)}",
        "stochastic-c": f"n + R >= {2**bits}, where n is {2**bits} nu rounded to nearest even",
    }[rounding]


def _window(numerics: Numerics) -> str:
    """Return the rounding of terms before the sum, as text. The text is empty if no product may
    lose bits of a term."""
    rounded = {
        numerics.product_bits(*pair)
        for pair in combinations(CLASS_NAMES, 2)
        if numerics.is_windowed(*pair)
    }
    if not rounded:
        return ""
    return (
        f", except that terms of more than {max(rounded)} bits are first rounded to "
        f"{max(rounded)} bits, half away from zero, which sets FLAGS.inexact"
    )


def _item(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="- ", subsequent_indent="  ")


def command_words(run: FirstRun) -> list[str]:
    """Return a table with the words of the commands side by side."""
    encoded = [command.encode() for command in run.commands]
    rows = (
        (
            str(word),
            *(
                f"0x{int.from_bytes(each[4 * word : 4 * word + 4], 'little'):08X}"
                for each in encoded
            ),
        )
        for word in range(COMMAND_BYTES // 4)
    )
    return table("word", "convert X", "convert W", "forward", rows=rows)


def place_table(run: FirstRun) -> list[str]:
    """Return a table of the places in memory. For floats, the table gives the bytes between
    rows."""
    pitches = {tensor.name: run.pitch(tensor) for tensor in (*FORWARD.factors, FORWARD.result)}
    rows = (
        (f"0x{place.address:08X}", str(place.size), str(pitches.get(name, "")), place.what)
        for name, place in run.places.items()
    )
    return table("address", "bytes", "row pitch", "content", rows=rows)


def write_table(run: FirstRun) -> list[str]:
    """Return a table of the register writes, in order."""
    rows = ((f"0x{at:02X}", f"0x{value:08X}", about) for at, value, about in run.writes)
    return table("offset", "value", "register", rows=rows)


def image_dumps(run: FirstRun) -> list[str]:
    """Return the bytes of every image of the first run, as lines."""
    lines: list[str] = []
    for tensor in FORWARD.factors:
        for number, image in enumerate(run.images(tensor)):
            place = run.places[f"{tensor.name}{number}"]
            lines += ["", f"{place.what}, {place.size} bytes from 0x{place.address:08X} on:", ""]
            lines += _dump(image)
    return lines


def _dump(image: Bytes) -> Iterable[str]:
    """Yield lines of bytes. Lines of zeros are left out, except the last line of the image."""
    rows = [image[at : at + BYTES_A_LINE] for at in range(0, len(image), BYTES_A_LINE)]
    for number, row in enumerate(rows):
        if row.any() or number == len(rows) - 1:
            yield f"    +{BYTES_A_LINE * number:04x}  {row.tobytes().hex(' ')}"


def file_rows(files: dict[str, Any]) -> list[str]:
    """Return a table of the kinds of files, with paths. If a kind has more than 4 paths, the table
    shows the first and the last path."""
    by_kind: dict[str, list[str]] = {}
    for path, (kind, _) in files.items():
        by_kind.setdefault(kind, []).append(f"`{path}`")
    rows: list[tuple[str, ...]] = []
    for kind, paths in by_kind.items():
        shown = paths if len(paths) <= 4 else [paths[0], "...", paths[-1]]
        rows.append((kind, str(len(paths)), ", ".join(shown)))
    return table("kind", "files", "paths", rows=rows)
