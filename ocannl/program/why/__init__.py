"""Answers to why a tensor has its shape, its dtype, its name or its placement."""
