"""What the tool refuses, by the tables of this folder: a command line or a call, and what is said.

A refused command has the exit code of the table, says nothing on standard output, and leaves the
folder as it was.
"""

import shlex
from pathlib import Path

import pytest

from diastole import cli
from diastole.config.file import accepted
from refusal_files import write_files
from support.transcripts import answer, matches, refusals
