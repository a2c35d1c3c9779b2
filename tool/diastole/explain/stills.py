"""Draw still pictures of a page of `diastole explain` for the documents, by the page's own
scripts."""

import html
import json
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from diastole.explain.browser import document_after
from diastole.report.palette import apply_theme

DOCUMENTED = ("--preset", "pico", "--set", "vector.enable=false", "--op", "backward")
"""Arguments of `diastole explain` for the pictures in the documents."""
GAP, TITLE = 24, 26
# Pictures show an early cycle among the vectors of the first block. Forward and dX share a first
# block, and dW and the fused pass share another. The fused pass is shown where one direction still
# adds while the other direction begins.
SCRIPT = """
const found = {still: null, dataflows: [], legend: null};
data.runs.forEach((each, number) => {
  choose(number);
  const first = run.passes[0];
  go(first.first + (run.ways.length > 1 ? first.count + 2 : 4));
  const svg = document.getElementById("picture"), box = svg.getAttribute("viewBox");
  svg.querySelectorAll("[class]").forEach(node => node.removeAttribute("class"));
  const array = [LEFT - 20, 0, box.split(" ")[2] - LEFT + 20, ARRAY_HIGH + 10];
  const title = run.title + ", cycle " + cycle;
  found.dataflows.push([title, array.join(" "), svg.innerHTML]);
  found.still = [title, box, svg.innerHTML];
});
const svg = draw(document.body, "svg", {});
const high = legend(svg, [LEGEND.array], 10, 4, 900);
svg.querySelectorAll("[class]").forEach(node => node.removeAttribute("class"));
found.legend = ["", `0 0 900 ${high}`, svg.innerHTML];
const result = document.createElement("pre");
result.id = "found";
result.textContent = JSON.stringify(found);
document.body.replaceChildren(result);
"""


class Picture(NamedTuple):
    """The inside of an SVG, the visible part as a ``viewBox``, and the title."""

    title: str
    box: str
    inner: str

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        _, _, width, height = map(float, self.box.split())
        return width, height


def stills(page: str, browser: str) -> dict[str, str]:
    """Return pictures of a page of one or more products, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(f"{page}<script>{SCRIPT}</script>", encoding="utf-8")
        text = document_after(path, browser)
    match = re.search('<pre id="found">(.*)</pre>', text, re.DOTALL)
    if match is None:
        raise RuntimeError(f"{browser} did not run the scripts of the page")
    pictures = json.loads(html.unescape(match[1]))
    flows = [Picture(*each) for each in pictures["dataflows"]]
    return {
        "explain.svg": composed([Picture(*pictures["still"])]),
        "dataflows.svg": composed(flows, Picture(*pictures["legend"])),
    }


def composed(pictures: list[Picture], legend: Picture | None = None) -> str:
    """Return several pictures as one, two in a row, with a title above every picture and a legend
    below. The picture has the reader's colours, light or dark."""
    about = "; ".join(each.title for each in pictures)
    width, height = (max(sizes) for sizes in zip(*(each.size for each in pictures), strict=True))
    columns = min(len(pictures), 2)
    parts: list[str] = []
    for number, each in enumerate(pictures):
        row, column = divmod(number, columns)
        x, y = column * (width + GAP), row * (height + TITLE + GAP)
        parts.append(
            f'<text x="{x + 10:g}" y="{y + 18:g}" font-family="sans-serif" font-size="16" '
            f'font-weight="bold" fill="var(--ink)">{html.escape(each.title)}</text>'
        )
        parts.append(_placed(each, x, y + TITLE))
    right, bottom = columns * (width + GAP) - GAP, -(-len(pictures) // columns)
    bottom *= height + TITLE + GAP
    if legend is not None:
        parts.append(_placed(legend, 0, bottom))
        right, bottom = max(right, legend.size[0]), bottom + legend.size[1]
    return apply_theme(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {bottom:g}" role="img">\n'
        f"<title>{html.escape(about)}</title>\n"
        '<rect width="100%" height="100%" fill="var(--page)"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _placed(picture: Picture, x: float, y: float) -> str:
    width, height = picture.size
    return (
        f'<svg x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'viewBox="{picture.box}">{picture.inner}</svg>'
    )
