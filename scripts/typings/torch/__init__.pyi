"""All of torch as anything at all: `make lint` says the same with it and without."""

from typing import Any

def __getattr__(name: str) -> Any: ...
