"""Normalization of values and of weights."""
