"""Configurations that ``make sweeps`` tries, and ``make test`` does not."""

import pytest


def sweep(*values):
    """A parameter set of a test of which others are always run."""
    return pytest.param(*values, marks=pytest.mark.sweep)
