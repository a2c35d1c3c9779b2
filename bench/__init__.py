"""Measures figures and checks what is asked of them; no part of the package.

``pytest bench -k NAME`` measures some figures, ``make bench`` all, and writes docs/results.md.
"""
