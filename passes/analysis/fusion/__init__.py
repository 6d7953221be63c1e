"""Legality and profitability of one loop in place of several."""
