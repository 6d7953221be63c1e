"""The pass `split-k`."""
