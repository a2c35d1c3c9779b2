"""Run the command line as ``python -m diastole``."""

import sys

from diastole.cli import main

sys.exit(main())
