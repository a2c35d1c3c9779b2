"""Describe a module for the comment above the module: the contract of its component, in plain
words."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from amaranth.lib import data, wiring

from diastole_hw.emit.sharing import constructor_parameters, flat_ports

WIDTH = 97
"""Columns of a comment line without the two slashes."""
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def about_component(component: wiring.Component, *, above: str = "") -> list[str]:
    """Return lines that describe a component: the docstring with the values of the parameters in
    place of their descriptions, then the fields and bits of packed ports.

    If a module ``above`` of the same class has the whole docstring, only the first paragraph is
    returned.
    """
    of = type(component)
    lines = (
        [*first_paragraph(of), "", f"More is said above {above}."] if above else contract_lines(of)
    )
    values = [*_values(component)]
    if values:
        lines += ["", *_wrapped("Parameters: " + ", ".join(values))]
    fields = [line for name, member, _ in flat_ports(component) for line in _packed(name, member)]
    if fields:
        lines += ["", "Fields of packed ports, highest bit first:", *fields]
    return lines


def contract_lines(of: type) -> list[str]:
    """Return the lines of a class's docstring without parameters, errors and markup."""
    text = inspect.getdoc(of) or ""
    parts = _SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    sections.pop("Parameters", None)
    paragraphs = [
        part for part in parts[0].strip().split("\n\n") if not part.startswith("ValueError")
    ]
    for name, body in sections.items():
        section_paragraphs = (
            part for part in body.strip().split("\n\n") if not part.startswith("ValueError")
        )
        paragraphs.append(
            "\n\n".join(
                [f"{name}\n{'-' * len(name)}\n{next(section_paragraphs)}", *section_paragraphs]
            )
        )
    plain = "\n\n".join(filter(None, paragraphs)).replace("``", "").replace("\\", "/")
    return _ROLE.sub(r"\1", plain).splitlines()


def first_paragraph(of: type) -> list[str]:
    """Return the lines of :func:`contract_lines` up to the first empty line."""
    lines = contract_lines(of)
    return lines[: lines.index("")] if "" in lines else lines


def _values(component: wiring.Component) -> Iterator[str]:
    """Yield the parameters that are numbers or strings, with their values."""
    for name, value in constructor_parameters(component).items():
        if isinstance(value, (bool, int, str)):
            yield f"{name} = {value}"


def _packed(name: str, member: Any) -> Iterator[str]:
    """Yield lines with the fields of a port that is a structure."""
    if isinstance(member.shape, data.StructLayout) and len(member.shape.members) > 1:
        parts = [
            f"{field}[{low + bits - 1}:{low}]" for field, low, bits in layout_fields(member.shape)
        ]
        yield from _wrapped(f"{name}: " + ", ".join(reversed(parts)), "  ")


def layout_fields(layout: data.Layout, prefix: str = "", start: int = 0) -> Iterator[tuple]:
    """Yield the name, lowest bit and width of every field of at least 1 bit. The name of a field in
    a nested structure has a dot."""
    for key, field in layout:
        low = start + field.offset
        name = f"{prefix}{key}"
        if isinstance(field.shape, data.StructLayout):
            yield from layout_fields(field.shape, f"{name}.", low)
        elif field.width:
            yield name, low, field.width


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
