"""Building programs: tensors, parameters and code, up to their text at any stage."""
