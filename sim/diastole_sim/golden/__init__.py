"""The bit-exact model of everything that the hardware computes, in integers."""
