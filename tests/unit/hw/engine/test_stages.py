"""The loaders of an engine, whichever port they serve."""

from dataclasses import fields

from diastole_hw.engine.stages import Loader, Stages


def test_loaders_are_those_of_the_first_port_and_then_the_others():
    own = {field.name: f"{field.name} of port 0" for field in fields(Stages)}
    second = Loader(**{field.name: f"{field.name} of port 1" for field in fields(Loader)})
    first, *others = Stages(**own | {"others": (second,)}).loaders
    assert first == Loader(**{field.name: own[field.name] for field in fields(Loader)})
    assert others == [second]
