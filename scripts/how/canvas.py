"""A picture of the documents: text, rectangles and lines, in the colours of the reader's choice."""

from html import escape

from diastole.report.palette import apply_theme

WIDTH = 400
"""Units of every picture. A telephone of 360 pixels shows a picture in 328 pixels."""
SMALL = 11
"""Least size of text: 9 pixels on a telephone."""
SHOWN = 520
"""Pixels of a picture where a page has the room."""
LETTER = 0.56
"""Width of a letter over the size of the text, on average; in a monospaced text 0.61."""


class Canvas:
    """Picture with a ``title`` and a description ``about`` for readers who cannot see it."""

    def __init__(self, title: str, about: str):
        self.title, self.about = title, about
        self.parts: list[str] = []
        self.bottom = 0.0

    def text(
        self, x, y, words, *, size=SMALL, colour="ink", anchor="start", bold=False, mono=False
    ):
        """Write ``words`` at a baseline. ValueError if the text leaves the picture."""
        long = len(words) * size * (0.61 if mono else LETTER)
        left = x - {"start": 0, "middle": long / 2, "end": long}[anchor]
        if size < SMALL or left < 0 or left + long > WIDTH:
            raise ValueError(f"{words!r} is too small, or leaves the picture")
        weight = ' font-weight="bold"' if bold else ""
        family = "monospace" if mono else "sans-serif"
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{family}" font-size="{size:g}"{weight} '
            f'text-anchor="{anchor}" fill="var(--{colour})">{escape(words, quote=False)}</text>'
        )
        self.bottom = max(self.bottom, y + 4)

    def rect(self, x, y, width, height, *, fill=None, stroke=None, opacity=1.0):
        """Draw a rectangle. ValueError if the rectangle leaves the picture."""
        if x < 0 or x + width > WIDTH + 0.01:
            raise ValueError(f"a rectangle from {x} to {x + width} leaves the picture")
        paint = f"var(--{fill})" if fill else "none"
        frame = f' stroke="var(--{stroke})" stroke-width="1.5"' if stroke else ""
        pale = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
        self.parts.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" '
            f'fill="{paint}"{pale}{frame}/>'
        )
        self.bottom = max(self.bottom, y + height)

    def line(self, x, y, to_x, to_y, *, colour="line", arrow=False, dashed=False):
        """Draw a line, upright or level, with a head at its end if ``arrow``."""
        dash = ' stroke-dasharray="3 3"' if dashed else ""
        self.parts.append(
            f'<line x1="{x:.4g}" y1="{y:.4g}" x2="{to_x:.4g}" y2="{to_y:.4g}" '
            f'stroke="var(--{colour})"{dash}/>'
        )
        if arrow:
            ahead = ((to_x > x) - (to_x < x), (to_y > y) - (to_y < y))
            back_x, back_y = to_x - 6 * ahead[0], to_y - 6 * ahead[1]
            side_x, side_y = 3.5 * ahead[1], 3.5 * ahead[0]
            points = (
                f"{to_x:g},{to_y:g} {back_x + side_x:g},{back_y + side_y:g} "
                f"{back_x - side_x:g},{back_y - side_y:g}"
            )
            self.parts.append(f'<polygon points="{points}" fill="var(--{colour})"/>')
        self.bottom = max(self.bottom, y, to_y)

    def svg(self) -> str:
        """Return the file."""
        high = round(self.bottom + 8)
        shown = round(high * SHOWN / WIDTH)
        begin = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" '
            f'width="{SHOWN}" height="{shown}" role="img" aria-labelledby="title about">'
        )
        lines = [
            begin,
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="about">{escape(self.about)}</desc>',
            f'<rect width="{WIDTH}" height="{high}" fill="var(--page)"/>',
            *self.parts,
            "</svg>\n",
        ]
        return apply_theme("\n".join(lines))
