"""Run programs over blocks: fetch, check and issue instructions, and execute them in the lanes."""
