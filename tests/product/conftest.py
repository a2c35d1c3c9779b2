"""The products of the small presets, generated once."""

import pytest

from diastole.presets import PRESETS


@pytest.fixture(scope="session", params=["pico", "nano"])
def preset(request):
    return PRESETS[request.param]


@pytest.fixture(scope="session")
def product(preset, tmp_path_factory):
    """A product directory."""
    from diastole.emit.product import generate

    directory = tmp_path_factory.mktemp("products") / preset.name
    generate(preset, directory)
    return directory
