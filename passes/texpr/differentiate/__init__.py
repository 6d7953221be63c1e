"""The pass `differentiate` and its parts: reverse and forward mode on index maps."""
