"""Renews the pictures of the documents, from configurations, runs and the model of cycles.

    python scripts/pictures.py [FOLDER]

Writes into FOLDER (docs): blocks.svg, the units of `nano`; explain.html, the page of `diastole
explain`; explain.svg, a still of the page; dataflows.svg, four products on the page; the pictures
of the pages in FOLDER/how. The page and its stills are of one simulation. A further simulation
renews scripts/how/product.json, the record that how/product.svg is drawn from. Stills need a
browser without a screen, which make setup installs.
"""

import json
import sys
from pathlib import Path

from how import PICTURES, product

from diastole import cli
from diastole.config.presets import PRESETS
from diastole.errors import BadInput
from diastole.explain.browser import browsers
from diastole.explain.stills import DOCUMENTED, stills
from diastole.product.generate import product_contents


def main() -> int:
    parser = cli.Parser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=Path("docs"))
    arguments = parser.parse_args()
    if not browsers():
        raise BadInput("there is no browser; make setup installs one where the system allows it")
    page = arguments.folder / "explain.html"
    contents, _ = product_contents(PRESETS["nano"])
    (arguments.folder / "blocks.svg").write_text(contents["doc/blocks.svg"], encoding="utf-8")
    product.RECORD.write_text(json.dumps(product.recorded()) + "\n", encoding="utf-8")
    (arguments.folder / "how").mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (arguments.folder / "how" / name).write_text(draw(), encoding="utf-8")
    if code := cli.main(["explain", *DOCUMENTED, "--out", str(page)]):
        return code
    for name, picture in stills(page.read_text(encoding="utf-8"), browsers()[0]).items():
        (arguments.folder / name).write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(cli.exit_code(main))
