"""Renews docs/explain.html, the page of `diastole explain`, docs/explain.svg, a still of the page,
and docs/dataflows.svg, its four products.

    python scripts/dataflows.py [FOLDER]

All are of one simulation. The pictures need a browser without a screen, which make setup installs.
"""

import sys
from pathlib import Path

from diastole import cli
from diastole.errors import BadInput
from diastole.explain.browser import browsers
from diastole.explain.stills import DOCUMENTED, stills


def main() -> int:
    parser = cli.Parser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=Path("docs"))
    given = parser.parse_args()
    if not browsers():
        raise BadInput("there is no browser; make setup installs one where the system allows it")
    page = given.folder / "explain.html"
    if code := cli.main(["explain", *DOCUMENTED, "--out", str(page)]):
        return code
    for name, picture in stills(page.read_text(encoding="utf-8"), browsers()[0]).items():
        (given.folder / name).write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(cli.exit_code(main))
