"""Pictures of docs/how, each drawn from a run, a configuration or the model of cycles."""

from . import commands, converter, numbers, product, time, vector

PICTURES = {
    "numbers.svg": numbers.draw,
    "product.svg": product.draw,
    "converter.svg": converter.draw,
    "vector.svg": vector.draw,
    "commands.svg": commands.draw,
    "time.svg": time.draw,
}
"""Functions that return a picture, by the name of its file in docs/how."""
