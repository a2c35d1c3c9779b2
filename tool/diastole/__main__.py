"""``python -m diastole``: the command line."""

import sys

from diastole.cli import main

sys.exit(main())
