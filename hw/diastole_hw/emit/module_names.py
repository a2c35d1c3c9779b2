"""Choose the final names of modules, and enforce the rules for every emitted name."""

import re

from amaranth.hdl import Shape, ShapeCastable

from diastole_hw.emit.keywords import KEYWORDS
from diastole_hw.emit.sharing import PLACEHOLDER, SharedModule, plain
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram

_DECLARED = re.compile(r"^ *(?:(wire) .*?|(cell) \S+ )\\(\S+)$", re.MULTILINE)
_PORT = re.compile(r"^ *wire .*\b(?:input|output|inout) \d+ +\\(\S+)$", re.MULTILINE)
_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)
# A structure's field, NAME.FIELD or NAME[0]: an alias, declared and connected once, never used.
_FIELD = r"\\[^\s.\[]+[.\[]\S*"
_NOISE = re.compile(
    rf"^ *attribute \\enum_.*\n|^ *wire .*?{_FIELD}\n|^ *connect {_FIELD} .*\n", re.MULTILINE
)
_EMPTY = re.compile(r"^ *wire width 0 (?:.* )?(\S+)$", re.MULTILINE)
_PORT_NUMBER = re.compile(r"^( *wire .*\b(?:input|output|inout)) (\d+)", re.MULTILINE)


def module_names(modules: list[SharedModule], prefix: str) -> dict[str, str]:
    """Return the final name of every placeholder: PREFIX_CLASS, in snake case.

    If a class has several variants, the parameters that differ between the variants are appended.
    If the parameters cannot be written in a name, a number is appended. Memories are named
    PREFIX_mem_DEPTHxWIDTH, with the suffix ``_distributed`` if the memory is read without a clock.
    ValueError if two components get equal names.
    """
    by_class: dict[str, list[SharedModule]] = {}
    for module in modules:
        by_class.setdefault(snake_case(type(module.component).__name__), []).append(module)
    names = {}
    for base, variants in by_class.items():
        suffixes = [_suffix(module, variants) for module in variants]
        for n, (module, suffix) in enumerate(zip(variants, suffixes, strict=True)):
            if suffixes.count(suffix) > 1:
                suffix += f"_{n}"
            name = f"{prefix}_{base}{suffix}"
            if isinstance(module.component, (Ram, DistributedRam)):
                ram = module.component
                kind = "" if ram.read_latency_cycles else "_distributed"
                name = f"{prefix}_mem_{ram.depth}x{ram.width}{kind}"
            names[module.placeholder] = name
    if len(set(names.values())) != len(names):
        raise ValueError(f"two components have the same module name: {sorted(names.values())}")
    return names


def _suffix(module: SharedModule, variants: list[SharedModule]) -> str:
    """Return the parameters of ``module`` that differ between the variants, as far as readable."""
    suffix = ""
    for name, value in module.parameters.items():
        if len({plain(other.parameters.get(name)) for other in variants}) > 1:
            suffix += _readable(name, value)
    return suffix


def _readable(name: str, value) -> str:
    if isinstance(value, bool):
        return f"_{name}" if value else f"_no_{name}"
    if isinstance(value, int) and value >= 0:
        return f"_{name}{value}"
    if isinstance(value, str):
        return "_" + re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
    if isinstance(value, (tuple, list)) and all(isinstance(v, int) and v >= 0 for v in value):
        return f"_{name}" + "_".join(map(str, value))
    if isinstance(value, (Shape, ShapeCastable, type)):
        return f"_{Shape.cast(value).width}"
    return ""


def snake_case(name: str) -> str:
    """Convert a name, ``AxiReader`` to ``axi_reader``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def rename_modules(text: str, names: dict[str, str]) -> str:
    """Replace placeholders by final names in an RTLIL text; ``%3.queue`` becomes ``NAME_queue``."""

    def final(match: re.Match) -> str:
        inner = match[2].replace(".", "_").replace("$", "_")
        return f"\\{names[match[1]]}{inner}"

    return re.sub(rf"\\({PLACEHOLDER}\d+|{PLACEHOLDER}top)((?:\.[^\s.]+)*)(?=\s)", final, text)


def tidy(text: str) -> str:
    """Rewrite an RTLIL text to make Yosys write better Verilog.

    Aliases for fields of structures are removed. Ports are numbered from 1: Yosys treats 0 as no
    number and moves the port to the end. Signals without a name (``$signal``) become anonymous like
    intermediate results, and thus get a legal name.
    """
    text = _PORT_NUMBER.sub(lambda m: f"{m[1]} {int(m[2]) + 1}", _NOISE.sub("", text))
    return re.sub(r"\\(\$signal(?:\$\d+)?)(?=\s)", r"\1", text)


def drop_empty(text: str) -> str:
    """Remove wires of no bits, and the operators that compute the wires: Verilog has no wires of no
    bits."""
    parts = re.split(r"^(?=module )", text, flags=re.MULTILINE)
    return "".join(map(_drop_empty_in, parts))


def _drop_empty_in(module: str) -> str:
    empty = [re.escape(name) for name in _EMPTY.findall(module)]
    if not empty:
        return module
    any_of = "|".join(empty)
    module = re.sub(rf"^ *wire .*?(?:{any_of})\n", "", module, flags=re.MULTILINE)
    module = re.sub(rf"^connect (?:{any_of}) .*\n", "", module, flags=re.MULTILINE)
    operator = rf"^  cell \$.*\n(?:    .*\n)*?    connect \\Y (?:{any_of})\n  end\n"
    module = re.sub(operator, "", module, flags=re.MULTILINE)
    return re.sub(rf"^    connect \\\S+ (?:{any_of})\n", "", module, flags=re.MULTILINE)


def legalise(text: str) -> str:
    """Rename signals and instances, but not ports, if the name needs an escape in Verilog.

    A keyword as a name, like ``output``, gets an underscore. A second ``word`` of a module,
    ``word$7`` in Amaranth, becomes ``word_7``.
    """
    return "".join(map(_legalise_in, re.split(r"^(?=module )", text, flags=re.MULTILINE)))


def _legalise_in(module: str) -> str:
    declared = {name for _, _, name in _DECLARED.findall(module)}
    news = {}
    for name in sorted(declared - set(_PORT.findall(module))):
        if name in KEYWORDS or re.fullmatch(r"(?!U\$)\w+(\$\d+)+", name):
            new = f"{name}_" if name in KEYWORDS else name.replace("$", "_")
            while new in declared:
                new += "_"
            declared.add(new)
            news[f"\\{name}"] = f"\\{new}"
    if not news:
        return module
    any_of = "|".join(map(re.escape, news))
    return re.sub(rf"(?:{any_of})(?=\s)", lambda match: news[match[0]], module)


def name_problems(text: str) -> list[str]:
    """Return the problems of the names in an RTLIL text: keywords, numbers instead of names,
    illegal identifiers, modules emitted twice."""
    problems = []
    modules = _MODULE.findall(text)
    problems += [f"module {m}: emitted twice" for m in set(modules) if modules.count(m) > 1]
    for part in re.split(r"^(?=module )", text, flags=re.MULTILINE)[1:]:
        (module,) = _MODULE.findall(part)
        for wire, _cell, name in _DECLARED.findall(part):
            what = "signal" if wire else "submodule"
            if name in KEYWORDS:
                problems.append(f"module {module}: port {name} is a Verilog keyword")
            elif name.startswith("U$"):
                problems.append(f"module {module}: a submodule has no name")
            elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name):
                problems.append(f"module {module}: {what} {name} is no identifier")
    return sorted(set(problems))
