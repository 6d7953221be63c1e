"""Rewrites that several passes apply. They import analyses and each other, and no pass."""
