"""Draws docs/explain.svg, a still of `diastole explain`, and docs/dataflows.svg, its four products.

    python scripts/dataflows.py [FOLDER]

All of one page, so of one simulation; needs a browser without a screen, which make setup installs.
"""

import html
import json
import re
import sys
import tempfile
from pathlib import Path

from diastole import cli
from diastole.errors import BadInput
from diastole.explain.browser import browsers, document_after

MACHINE = ("--preset", "pico", "--op", "backward")
GAP, TITLE = 24, 26
# Early in the vectors of the first block, which forward and dX share, as dW and the fused pass do;
# of that where one way is still adding up while the other one begins.
SCRIPT = """
const found = {still: [], dataflows: []};
data.runs.forEach((each, number) => {
  choose(number);
  const first = run.passes[0];
  go(first.first + (run.ways.length > 1 ? first.count + 2 : 3));
  const svg = document.getElementById("picture"), box = svg.getAttribute("viewBox");
  svg.querySelectorAll("[class]").forEach(node => node.removeAttribute("class"));
  const array = [LEFT - 20, 0, box.split(" ")[2] - LEFT + 20, 20 + R * (B * LINE + 2 * DOWN)];
  const title = run.title + ", cycle " + cycle;
  found.dataflows.push([title, array.join(" "), svg.innerHTML]);
  found.still = [[title, box, svg.innerHTML]];
});
const result = document.createElement("pre");
result.id = "found";
result.textContent = JSON.stringify(found);
document.body.replaceChildren(result);
"""


def main() -> int:
    parser = cli.Parser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=Path("docs"))
    given = parser.parse_args()
    if not browsers():
        raise BadInput("there is no browser; make setup installs one where the system allows it")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        if code := cli.main(["explain", *MACHINE, "--out", str(page)]):
            return code
        with page.open("a", encoding="utf-8") as file:
            file.write(f"<script>{SCRIPT}</script>")
        text = document_after(page, browsers()[0])
    found = json.loads(html.unescape(re.search('<pre id="found">(.*)</pre>', text, re.DOTALL)[1]))
    (given.folder / "explain.svg").write_text(composed(found["still"]), encoding="utf-8")
    (given.folder / "dataflows.svg").write_text(composed(found["dataflows"]), encoding="utf-8")
    return 0


def composed(pictures: list[tuple[str, str, str]]) -> str:
    """One picture of several, two in a row, each under its title."""
    width, height = map(float, pictures[0][1].split()[2:])
    columns = min(len(pictures), 2)
    parts = []
    for number, (title, box, inner) in enumerate(pictures):
        row, column = divmod(number, columns)
        x, y = column * (width + GAP), row * (height + TITLE + GAP)
        parts.append(
            f'<text x="{x + 10:g}" y="{y + 18:g}" font-family="sans-serif" font-size="16" '
            f'font-weight="bold">{html.escape(title)}</text>\n'
            f'<svg x="{x:g}" y="{y + TITLE:g}" width="{width:g}" height="{height:g}" '
            f'viewBox="{box}">{inner}</svg>'
        )
    whole = (columns * (width + GAP) - GAP, -(-len(pictures) // columns) * (height + TITLE + GAP))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]:g} {whole[1]:g}">\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(cli.exit_code(main))
