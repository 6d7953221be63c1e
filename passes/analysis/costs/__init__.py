"""Costs: instructions, cycles, and bytes that are touched."""
