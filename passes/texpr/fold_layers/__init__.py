"""The pass `fold-layers` and its parts: a search for repeated code, and the layer of each value."""
