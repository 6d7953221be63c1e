"""Placements of values on one axis of a mesh: a constraint system, without xDSL."""
