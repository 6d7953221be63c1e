"""Collectives as messages between ranks: what algorithms send, and the time that takes."""
