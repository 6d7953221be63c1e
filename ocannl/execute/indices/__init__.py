"""Values of the static indices of routines."""
