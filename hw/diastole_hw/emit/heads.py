"""Write the heads of emitted modules: a description, then the ports in ANSI form, a port per
line."""

import re
from collections.abc import Mapping, Sequence

_HEAD = re.compile(r"^module (\S+?)\s*\((.*?)\);\n", re.MULTILINE | re.DOTALL)
_DECLARED = re.compile(
    r"^  (?:(\(\* .* \*\))\n  )?(input|output|inout|wire|reg) (\[\d+:\d+\] )?(\w+)( = [^;\n]+)?;\n",
    re.MULTILINE,
)


def with_head(
    module: str,
    *,
    about: Sequence[str] = (),
    order: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a module with the ports declared in the head.

    - ``module``: text as Yosys writes it, with the ports declared in the body.
    - ``about``: lines of a comment in front of the module.
    - ``order``: names of ports in the requested order. Other ports come first.
    - ``groups``: name of the bus by port. The name stands above consecutive ports of the bus.
    """
    head = _HEAD.search(module)
    assert head is not None, "no module"
    names = [name.strip() for name in head[2].split(",") if name.strip()]
    places = {name: at for at, name in enumerate(order)}
    names.sort(key=lambda name: places.get(name, -1))  # stable
    ports: dict[str, dict[str, str]] = {name: {} for name in names}

    def take(match: re.Match[str]) -> str:
        attribute, kind, bits, name, value = match.groups(default="")
        if name not in ports:
            return match[0]
        port = ports[name]
        if attribute:
            port["attribute"] = attribute
        if kind in ("wire", "reg"):
            port["register"] = "reg " if kind == "reg" else ""
            port["value"] = value
        else:
            port["direction"], port["bits"] = kind, bits
        return ""

    body = _DECLARED.sub(take, module[head.end() :])
    lines = list(_lines(ports, groups or {}))
    opened = module[: head.start()] + f"module {head[1]} (\n" + "\n".join(lines) + "\n);\n"
    return "".join(f"// {line}".rstrip() + "\n" for line in about) + opened + body


def _lines(ports: Mapping[str, Mapping[str, str]], groups: Mapping[str, str]):
    """Yield the lines of the head."""
    before = ""
    for number, (name, port) in enumerate(ports.items()):
        group = groups.get(name, "")
        if group != before:
            yield f"  // {group}"
            before = group
        if "attribute" in port:
            yield f"  {port['attribute']}"
        declared = f"{port['direction']} {port.get('register', '')}{port['bits']}{name}"
        comma = "" if number == len(ports) - 1 else ","
        yield f"  {declared}{port.get('value', '')}{comma}"
