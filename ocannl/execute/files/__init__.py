"""Files of arrays and of the state of programs."""
