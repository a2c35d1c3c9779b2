"""Share a Verilog module between equal components of a design, and elaborate the module once."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import Parameter, signature
from typing import Any
from weakref import WeakKeyDictionary

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockSignal,
    DomainRenamer,
    Fragment,
    Instance,
    ResetSignal,
    Shape,
    ShapeCastable,
    ValueCastable,
)
from amaranth.hdl import Signal as HdlSignal
from amaranth.hdl._ast import Property, Statement, Switch  # exported nowhere else
from amaranth.hdl._ir import PortDirection  # for rtlil.convert; exported nowhere else
from amaranth.hdl._xfrm import TransformedElaboratable  # result of DomainRenamer and the like
from amaranth.lib import wiring
from amaranth.lib.wiring import In

# Ports by component: an emission queries a component six times.
_flat_ports: WeakKeyDictionary[wiring.Component, list[tuple]] = WeakKeyDictionary()
PLACEHOLDER = "%"  # module N is called %N until every variant of its class is known


@dataclass(frozen=True)
class SharedModule:
    """Describe a distinct component: number, class, parameters and emitted RTLIL.

    ``rtlil`` is None for a component with a ``template``, which writes its own Verilog.
    """

    number: int
    component: wiring.Component
    parameters: dict[str, object]
    rtlil: str | None
    clocking: tuple[str, ...]  # "clk" and "rst", where the module has them

    @property
    def placeholder(self) -> str:
        return f"{PLACEHOLDER}{self.number}"


class EmitPlatform:
    """Collect the distinct components of a design while Amaranth elaborates the design.

    Wherever Amaranth would elaborate a component, :meth:`convert` makes Amaranth take an instance
    instead. All components of the same class and parameters share the module of the instance. Only
    the first of equal components is elaborated.

    A shared component has only the ports of its signature and only registers of domain ``sync``. It
    keeps every parameter of its constructor as an attribute of the same name. TypeError otherwise.
    """

    def __init__(self):
        self._modules: dict[tuple, SharedModule] = {}
        self._started = 0
        self._whole: Any = None  # the component that is elaborated itself, not as an instance

    @property
    def modules(self) -> list[SharedModule]:
        """Distinct components of the design, in the order of first appearance."""
        return sorted(self._modules.values(), key=lambda module: module.number)

    def instance(self, component: wiring.Component) -> Instance:
        """Return an instance of the module that ``component`` shares with equal components."""
        key = component_key(component)
        if key not in self._modules:
            number = self._started
            self._started += 1
            self._modules[key] = self._emit(component, number)
        component._MustUse__used = True  # as Fragment.get does: an equal component is elaborated
        module = self._modules[key]
        ports = [
            ("i" if member.flow == In else "o", name, value)
            for name, member, value in flat_ports(component)
        ]
        drivers = {"clk": ClockSignal, "rst": ResetSignal}
        ports += [("i", name, drivers[name]()) for name in module.clocking]
        instance = Instance(module.placeholder, *ports)
        instance.origins = (component,)  # the replaced component, as Fragment.get would note
        return instance

    def convert(self, top: Any, name: str, ports: dict) -> str:
        """Return the RTLIL of ``top`` as a module ``name``, and collect the modules inside
        ``top``."""
        with self._sharing():
            return self._convert(top, name, ports)

    def _convert(self, component: Any, name: str, ports: dict) -> str:
        self._whole = component
        fragment = Fragment.get(component, self)
        name_ports_after_submodules(fragment)
        drop_assertions(fragment)
        return rtlil.convert(fragment, name=name, platform=self, ports=ports, emit_src=False)

    @contextmanager
    def _sharing(self) -> Generator[None]:
        """Make Amaranth elaborate the result of :meth:`_stand_in` for this platform, inside the
        context."""
        get = Fragment.get

        def get_shared(elaboratable, platform):
            return get(self._stand_in(elaboratable) if platform is self else elaboratable, platform)

        Fragment.get = staticmethod(get_shared)
        try:
            yield
        finally:
            Fragment.get = staticmethod(get)

    def _stand_in(self, elaboratable: Any) -> Any:
        """Return the instance to elaborate in place of a component; return any other object
        itself."""
        if isinstance(elaboratable, TransformedElaboratable):
            for transform in elaboratable._transforms_:
                if not isinstance(transform, DomainRenamer):  # an instance would not notice
                    raise TypeError(f"a design may not have a {type(transform).__name__}")
        if elaboratable is self._whole or not is_shareable(elaboratable):
            return elaboratable
        return self.instance(elaboratable)

    def _emit(self, component: wiring.Component, number: int) -> SharedModule:
        parameters = constructor_parameters(component)
        if hasattr(component, "template"):
            return SharedModule(number, component, parameters, None, ("clk",))
        name = f"{PLACEHOLDER}{number}"
        text = self._convert(component, name, convert_ports(component))
        inputs = module_inputs(text, name)
        allowed = {name for name, _, _ in flat_ports(component)}
        clocking = tuple(name for name in inputs if name not in allowed)
        if not set(clocking) <= {"clk", "rst"}:
            raise TypeError(
                f"{type(component).__name__} has inputs outside its signature: "
                + ", ".join(sorted(set(clocking) - {"clk", "rst"}))
            )
        return SharedModule(number, component, parameters, text, clocking)


def is_shareable(component: Any) -> bool:
    """Return whether ``component`` is a component of this project, as :func:`component_key`
    compares.

    Amaranth's own components, like memories, are excluded: Amaranth treats them as more than
    components.
    """
    return (
        isinstance(component, wiring.Component)
        and type(component).__module__.partition(".")[0] != "amaranth"
    )


def drop_assertions(fragment: Fragment):
    """Remove the assertions of a fragment: simulations and proofs check assertions, no gates belong
    to them.

    A unit numbers its wires differently if its very first statement is an assertion of ``sync``.
    """
    for domain, statements in list(fragment.statements.items()):
        statements[:] = _without_assertions(statements)
        if not statements:
            del fragment.statements[domain]
    for inner, _, _ in fragment.subfragments:
        drop_assertions(inner)


def _without_assertions(statements) -> list[Statement]:
    remaining = []
    for statement in statements:
        if isinstance(statement, Switch):
            cases = [
                (patterns, _without_assertions(inner), src_loc)
                for patterns, inner, src_loc in statement.cases
            ]
            if any(inner for _, inner, _ in cases):
                remaining.append(Switch(statement.test, cases, src_loc=statement.src_loc))
        elif not isinstance(statement, Property):
            remaining.append(statement)
    return remaining


def name_ports_after_submodules(fragment: Fragment):
    """Name every port of a submodule SUBMODULE_PORT in the parent, which otherwise numbers the
    ports."""
    for subfragment, name, _ in fragment.subfragments:
        for origin in subfragment.origins or ():
            if name and isinstance(origin, wiring.Component):
                for port, _, signal in flat_ports(origin):
                    signal.name = f"{name}_{port}"
        name_ports_after_submodules(subfragment)


def module_inputs(text: str, name: str) -> list[str]:
    """Return the names of the input ports of a module in an RTLIL text."""
    start = text.index(f"module \\{name}\n")
    own = text[start : text.index("\nend\n", start)]
    return re.findall(r"^ *wire .*\binput \d+ +\\(\S+)$", own, re.MULTILINE)


def flat_ports(component: wiring.Component):
    """Return (name, member, signal) of every port of at least 1 bit; two underscores join names."""
    if component not in _flat_ports:
        ports = _flat_ports[component] = []
        for path, member, value in component.signature.flatten(component):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            if len(signal):
                ports.append(("__".join(map(str, path)), member, signal))
    return _flat_ports[component]


def convert_ports(component: wiring.Component) -> dict:
    """Return the argument ``ports=`` of Amaranth's converters for the component's signature."""
    ports = {}
    for name, member, signal in flat_ports(component):
        if not isinstance(signal, HdlSignal):
            raise TypeError(f"port {name} of {type(component).__name__} is not a signal")
        direction = PortDirection.Input if member.flow == In else PortDirection.Output
        ports[name] = (signal, direction)
    return ports


def constructor_parameters(component: wiring.Component) -> dict[str, object]:
    """Return the arguments that made the component, read from attributes of the same names.

    A class for which fewer arguments matter defines ``shared_parameters``.
    """
    if hasattr(component, "shared_parameters"):
        return component.shared_parameters
    parameters = {}
    if type(component).__init__ is wiring.Component.__init__:
        return parameters  # members by annotation, nothing to choose
    for name, parameter in signature(type(component)).parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TypeError(f"{type(component).__name__}: cannot compare a class with *{name}")
        if not hasattr(component, name):
            raise TypeError(
                f"{type(component).__name__} keeps no attribute {name!r}: a shared component "
                "keeps the parameters of its constructor"
            )
        parameters[name] = getattr(component, name)
    return parameters


def component_key(component: wiring.Component) -> tuple:
    """Return a key that is equal for components made alike: class, parameters, shapes of the
    ports."""
    parameters = constructor_parameters(component)
    return (
        type(component),
        tuple((name, plain(value)) for name, value in parameters.items()),
        tuple((name, str(member.flow), len(sig)) for name, member, sig in flat_ports(component)),
    )


def plain(value) -> object:
    """Return ``value`` as nested tuples of simple values, equal exactly when the values are equal.

    Accepts numbers, strings, None, enumerations, tuples, lists, dicts, frozen dataclasses, models
    with ``model_dump`` (pydantic), Amaranth's shapes and layouts. TypeError for any other value.
    """
    if value is None or (
        isinstance(value, (bool, int, str, float)) and not isinstance(value, Enum)
    ):
        return (type(value).__name__, value)  # the type too: True equals 1, but is not 1
    if isinstance(value, Enum):
        return (type(value).__qualname__, value.name)
    if isinstance(value, (tuple, list)):
        return ("sequence", tuple(plain(item) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple((plain(key), plain(item)) for key, item in value.items()))
    if is_dataclass(value) and not isinstance(value, type):
        members = tuple((field.name, plain(getattr(value, field.name))) for field in fields(value))
        return (type(value).__qualname__, members)
    if hasattr(value, "model_dump"):
        return (type(value).__qualname__, plain(value.model_dump()))
    if isinstance(value, (Shape, ShapeCastable, type)):
        shape = value.__qualname__ if isinstance(value, type) else repr(value)
        return ("shape", shape, Shape.cast(value).width, Shape.cast(value).signed)
    raise TypeError(f"cannot compare a parameter of type {type(value).__name__}")
