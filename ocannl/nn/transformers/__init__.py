"""Attention, its caches, positions, and the layers made of them."""
