"""Eager mode while a program is built: what was recorded, and values where they are looked at."""
