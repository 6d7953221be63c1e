"""Devices and their memory, compilation of routines with its caches, and random numbers."""
