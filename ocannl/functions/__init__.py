"""Functions that are traced for each signature, compiled and cached."""
