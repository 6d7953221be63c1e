"""Convolutions with fewer multiplications."""
