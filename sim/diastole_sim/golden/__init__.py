"""Model everything that the hardware computes, bit-exact and in integers."""
