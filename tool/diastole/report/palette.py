"""Colours of pages and pictures by meaning, for light and for dark surroundings.

Light and dark colours of a meaning have the same hue. Vectors are blue, stationary blocks orange,
sums green. The three differ in lightness too, for readers who do not see every hue. Tests compute
the contrast of every text colour, and the distances of the colours for four kinds of vision.
"""

import re

LIGHT = {
    "page": "#ffffff",
    "ink": "#222222",
    "faint": "#666666",
    "line": "#bbbbbb",
    "panel": "#f4f4f4",
    "stream": "#004f96",
    "held": "#c98200",
    "cell": "#fff7e6",
    "sums": "#068660",
    "there": "#9ec9e2",
    "none": "#e9e9e9",
    "written": "#555555",
    "now": "#d55e00",
    "X": "#332288",
    "W": "#aa4499",
    "dY": "#cc99bb",
    "command": "#b3b3b3",
    "east": "#117733",
    "north": "#88ccaa",
}
DARK = {
    "page": "#15181b",
    "ink": "#e8e6e3",
    "faint": "#a0a6ac",
    "line": "#565d64",
    "panel": "#24292e",
    "stream": "#58a6ff",
    "held": "#e69f00",
    "cell": "#2f2714",
    "sums": "#5fe0a8",
    "there": "#1f5375",
    "none": "#2b3036",
    "written": "#b5b5b5",
    "now": "#ff8a4a",
    "X": "#8f83e6",
    "W": "#c964b8",
    "dY": "#f0c4e2",
    "command": "#6c7278",
    "east": "#2f9d57",
    "north": "#a8e6c4",
}
_NAME = re.compile(r"var\(--(\w+)\)")


def variables(colours: dict[str, str]) -> str:
    """Return declarations of the colours as variables of CSS."""
    return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())


def apply_theme(picture: str) -> str:
    """Return a picture (SVG) that follows the reader's choice of light or dark.

    Colours of ``picture`` are attributes ``var(--NAME)``. Each attribute gets the light colour, so
    programs without CSS draw the picture too. A style at the end of the root element replaces the
    light colours where the reader prefers dark ones.
    """
    names = sorted(set(_NAME.findall(picture)))
    rules = "".join(
        f'[{attribute}="{LIGHT[name]}"]{{{attribute}:{DARK[name]}}}'
        for name in names
        for attribute in ("fill", "stroke")
        if f'{attribute}="var(--{name})"' in picture
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n"
    body, end, rest = picture.rpartition("</svg>")
    return _NAME.sub(lambda match: LIGHT[match[1]], body) + style + end + rest
