"""What the README claims, measured: the commands in ``scripts/`` print what these modules find."""
