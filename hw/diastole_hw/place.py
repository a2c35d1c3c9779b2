"""Submodules that become Verilog modules of their own, one per distinct component."""

import re
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from inspect import Parameter, signature
from weakref import WeakKeyDictionary

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockSignal,
    Fragment,
    Instance,
    Module,
    ResetSignal,
    Shape,
    ShapeCastable,
    ValueCastable,
)
from amaranth.hdl import Signal as HdlSignal
from amaranth.hdl._ir import PortDirection  # what rtlil.convert takes; exported nowhere else
from amaranth.lib import wiring
from amaranth.lib.wiring import In

# By component, which is asked six times on its way into a product.
_flat_ports: WeakKeyDictionary[wiring.Component, list[tuple]] = WeakKeyDictionary()
PLACEHOLDER = "%"  # module N is called %N until every variant of its class is known


def place(component: wiring.Component, platform):
    """What to add to ``m.submodules`` for ``component``: itself, or an instance of its module.

    In simulation (``platform`` is no :class:`EmitPlatform`) that is the component. For emission it
    is an instance, wired to the component's own ports, of a module that all components of the same
    class and parameters share; only the first of them is elaborated.

    The component may have ports of its signature only and registers of domain ``sync`` only, and
    keeps each parameter of its constructor as an attribute of the same name; TypeError otherwise.
    """
    if isinstance(platform, EmitPlatform):
        return platform.instance(component)
    return component


@dataclass(frozen=True)
class PlacedModule:
    """One distinct component: its number, class, parameters and what was emitted of it.

    ``rtlil`` is None for a component with a ``template``, which writes its Verilog itself.
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
    """Collects the distinct components of one product while they are elaborated."""

    def __init__(self):
        self._modules: dict[tuple, PlacedModule] = {}
        self._started = 0

    @property
    def modules(self) -> list[PlacedModule]:
        """Every distinct component placed so far, in the order in which they were first met."""
        return sorted(self._modules.values(), key=lambda module: module.number)

    def instance(self, component: wiring.Component) -> Instance:
        """An instance of the module that ``component`` shares with its equals."""
        key = component_key(component)
        if key not in self._modules:
            number = self._started
            self._started += 1
            self._modules[key] = self._emit(component, number)
        component._MustUse__used = True  # as Fragment.get does: an equal one was elaborated for it
        module = self._modules[key]
        ports = [
            ("i" if member.flow == In else "o", name, value)
            for name, member, value in flat_ports(component)
        ]
        drivers = {"clk": ClockSignal, "rst": ResetSignal}
        ports += [("i", name, drivers[name]()) for name in module.clocking]
        instance = Instance(module.placeholder, *ports)
        instance.origins = (component,)  # who it stands for, as Fragment.get notes it elsewhere
        return instance

    def convert(self, component, name: str, ports: dict) -> str:
        """RTLIL of ``component`` as a module of this name; what it places is collected here."""
        fragment = Fragment.get(component, self)
        self._place_components(fragment)
        name_ports_after_submodules(fragment)
        return rtlil.convert(fragment, name=name, platform=self, ports=ports, emit_src=False)

    def _place_components(self, fragment: Fragment):
        """Place what the authors of ``fragment`` added as it is, but for what cannot be placed."""
        for index, (inner, name, src_loc) in enumerate(fragment.subfragments):
            origin, *rest = inner.origins or (None,)
            changed = any(not isinstance(step, Module) for step in rest)  # DomainRenamer and such
            if is_placeable(origin) and not changed and not isinstance(inner, Instance):
                fragment.subfragments[index] = (self.instance(origin), name, src_loc)
            else:
                self._place_components(inner)

    def _emit(self, component: wiring.Component, number: int) -> PlacedModule:
        parameters = constructor_parameters(component)
        if hasattr(component, "template"):
            return PlacedModule(number, component, parameters, None, ("clk",))
        name = f"{PLACEHOLDER}{number}"
        text = self.convert(component, name, convert_ports(component))
        inputs = module_inputs(text, name)
        allowed = {name for name, _, _ in flat_ports(component)}
        clocking = tuple(name for name in inputs if name not in allowed)
        if not set(clocking) <= {"clk", "rst"}:
            raise TypeError(
                f"{type(component).__name__} has inputs outside its signature: "
                + ", ".join(sorted(set(clocking) - {"clk", "rst"}))
            )
        return PlacedModule(number, component, parameters, text, clocking)


def is_placeable(component) -> bool:
    """Whether ``component`` is one of ours, and :func:`component_key` can compare it."""
    if not isinstance(component, wiring.Component):
        return False
    if type(component).__module__.partition(".")[0] == "amaranth":
        return False  # its parts, like memories, are more to Amaranth than components
    try:
        component_key(component)
    except TypeError:
        return False
    return True


def name_ports_after_submodules(fragment: Fragment):
    """Call each port of a submodule SUBMODULE_PORT in its parent, which otherwise numbers them."""
    for subfragment, name, _ in fragment.subfragments:
        for origin in subfragment.origins or ():
            if name and isinstance(origin, wiring.Component):
                for port, _, signal in flat_ports(origin):
                    signal.name = f"{name}_{port}"
        name_ports_after_submodules(subfragment)


def module_inputs(text: str, name: str) -> list[str]:
    """Names of the input ports of one module of an RTLIL text."""
    start = text.index(f"module \\{name}\n")
    own = text[start : text.index("\nend\n", start)]
    return re.findall(r"^ *wire .*\binput \d+ +\\(\S+)$", own, re.MULTILINE)


def flat_ports(component: wiring.Component):
    """(name, member, signal) of every port of at least one bit, names joined by two underscores."""
    if component not in _flat_ports:
        ports = _flat_ports[component] = []
        for path, member, value in component.signature.flatten(component):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            if len(signal):
                ports.append(("__".join(map(str, path)), member, signal))
    return _flat_ports[component]


def convert_ports(component: wiring.Component) -> dict:
    """The ``ports=`` of Amaranth's converters for the component's signature."""
    ports = {}
    for name, member, signal in flat_ports(component):
        if not isinstance(signal, HdlSignal):
            raise TypeError(f"port {name} of {type(component).__name__} is not a signal")
        direction = PortDirection.Input if member.flow == In else PortDirection.Output
        ports[name] = (signal, direction)
    return ports


def constructor_parameters(component: wiring.Component) -> dict[str, object]:
    """The arguments that made the component, read from its attributes of the same names.

    A class for which fewer of them matter says so itself, in ``placed_parameters``.
    """
    if hasattr(component, "placed_parameters"):
        return component.placed_parameters
    parameters = {}
    if type(component).__init__ is wiring.Component.__init__:
        return parameters  # members by annotation, nothing to choose
    for name, parameter in signature(type(component)).parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            raise TypeError(f"{type(component).__name__}: cannot place a class with *{name}")
        if not hasattr(component, name):
            raise TypeError(
                f"{type(component).__name__} keeps no attribute {name!r}: a placed component "
                "keeps the parameters of its constructor"
            )
        parameters[name] = getattr(component, name)
    return parameters


def component_key(component: wiring.Component) -> tuple:
    """Equal for components that are made alike: class, parameters, and shapes of the ports."""
    parameters = constructor_parameters(component)
    return (
        type(component),
        tuple((name, plain(value)) for name, value in parameters.items()),
        tuple((name, str(member.flow), len(sig)) for name, member, sig in flat_ports(component)),
    )


def plain(value) -> object:
    """``value`` as nested tuples of simple values, equal exactly when the values are.

    Takes numbers, strings, None, enumerations, tuples, lists, dicts, frozen dataclasses, models
    with ``model_dump`` (pydantic), Amaranth's shapes and layouts; TypeError for anything else.
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
