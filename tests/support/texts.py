"""Texts as patterns, for ``pytest.raises(..., match=...)``, which searches."""

import re


def exactly(text: str) -> str:
    """Matches this text and nothing before or after it."""
    return rf"\A{re.escape(text)}\Z"
