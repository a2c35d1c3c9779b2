"""Base of all modules: parameters and modules by dotted names."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from diastole.nn.symbol import TRACER, Symbol
from diastole_sim.graph.graph import HE, GraphError
from diastole_sim.graph.operations.operation import Shape
from diastole_sim.spec.require import require_int


class Parameter:
    """Parameter of a module.

    - ``shape``: shape as in PyTorch; a weight has outputs first.
    - ``initial``: "he" (uniform, as He et al., ICCV 2015), "zeros" or "ones".
    - ``requires_grad``: False for a frozen parameter.
    """

    def __init__(self, shape: Shape, *, initial: str = HE, requires_grad: bool = True):
        for side in shape:
            require_int("a side of a parameter", side, 1, 2**24 - 1)
        self.shape, self.initial, self.requires_grad = tuple(shape), initial, requires_grad


class Module:
    """Part of a network. A module of your own has parameters and modules as attributes, and
    computes in ``forward``.

    The attributes give the names of the parameters: the weight of ``self.body[0]`` is
    ``body.0.weight``.
    """

    def forward(self, *inputs: Symbol) -> Symbol:
        """Return the result of the module."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward")

    def __call__(self, *inputs: Symbol) -> Symbol:
        tracer = TRACER.get(None)
        if tracer is None:
            raise GraphError(
                f"{type(self).__name__} was called outside of diastole.nn.trace: a module has no "
                "numbers, so pass the network to trace"
            )
        return tracer.call(self, inputs)

    def children(self) -> Iterator[tuple[str, "Module"]]:
        """Yield the modules within this module, with the names of the attributes. Lists and tuples
        of modules have numbers as names."""
        for name, value in vars(self).items():
            yield from _named(name, value, Module)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield every parameter once, with the dotted name, in the order of the attributes."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, value in vars(module).items():
                for own, parameter in _named(name, value, Parameter):
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        yield f"{path}.{own}" if path else own, parameter

    def named_modules(self) -> Iterator[tuple[str, "Module"]]:
        """Yield this module and all modules within, each once, with dotted names; the name of this
        module is empty."""
        yield from _modules("", self, set())

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """Set ``requires_grad`` of all parameters, and return the module. False freezes the
        module."""
        for _, parameter in self.named_parameters():
            parameter.requires_grad = requires_grad
        return self


def _modules(path: str, module: Module, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module.children():
        yield from _modules(f"{path}.{name}" if path else name, child, seen)


def _named(name: str, value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield a value of a kind, or the values of the kind in a list, with names."""
    if isinstance(value, kind):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(cast(Sequence[Any], value)):
            if isinstance(each, kind):
                yield f"{name}.{number}", each
