"""Units with a fault planted in their text."""

import inspect
from typing import Any


def edited(unit: type, old: str, new: str, **names: Any) -> type:
    """Return ``unit`` with the text ``new`` in the one place of ``old``; the new text may use
    ``names`` besides those of the unit's module. AssertionError if the unit's text does not have
    ``old``, or has it twice."""
    text = inspect.getsource(unit)
    assert text.count(old) == 1, f"{unit.__name__} has {text.count(old)} places of: {old}"
    module = vars(inspect.getmodule(unit)) | names
    exec(compile(text.replace(old, new), "edited", "exec"), module)
    return module[unit.__name__]
