"""Patterns that are recognized in nests."""
