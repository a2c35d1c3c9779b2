"""Presets without their vector unit, changed in some keys."""

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.spec.numerics import CLASS_NAMES


def changed(preset, **tables):
    """Return a preset whose file has these keys too, such as ``bus={"data_width": 64}``."""
    document = PRODUCTS_ONLY[preset].model_dump(exclude_none=True)
    for table, keys in tables.items():
        document[table] = document.get(table, {}) | keys if isinstance(keys, dict) else keys
    return from_document(document)


def in_format(preset, name, **tables):
    """Return a preset in another format of all classes, in that format's own groups."""
    formats = dict.fromkeys(CLASS_NAMES, name)
    return changed(preset, name=f"{preset}_{name}", format=formats, **tables)


def floating(preset):
    """Return a preset with accumulators e6m9."""
    document = PRODUCTS_ONLY[preset].to_dict()
    return from_document(document, [f"name={preset}_e6m9", "accumulator.kind=float"])
