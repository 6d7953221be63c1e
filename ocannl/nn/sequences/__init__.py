"""Recurrent layers, and a loss of sequences."""
