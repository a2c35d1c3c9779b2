"""Keys that raise the clock of a machine by registers on the longest paths."""

from collections.abc import Mapping

from diastole.config.keys import Config

CLOCK_KEYS: Mapping[str, str | bool] = {"cell.pipeline": "full", "memory.output_register": True}
"""Keys with the values of a fast machine. No preset has the keys: they cost area, and cycles of
small products."""


def clock_keys(config: Config) -> dict[str, str | bool]:
    """Return the values of a configuration for the keys of :data:`CLOCK_KEYS`."""
    pipeline, register = CLOCK_KEYS
    return {pipeline: config.cell.pipeline, register: config.memory.output_register}


def as_overrides(keys: Mapping[str, str | bool]) -> list[str]:
    """Return keys as arguments of ``--set``."""
    return [f"{key}={str(value).lower()}" for key, value in keys.items()]
