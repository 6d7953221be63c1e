"""The pass `schedule` and its parts: packing of operands, and the loops that threads share."""
