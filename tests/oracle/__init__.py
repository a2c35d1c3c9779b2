"""Independent references in plain Python, written from the definitions; slow and obvious.

Nothing here imports the code under test, nor numpy; the last rounding is MPFR's, by gmpy2.
"""
