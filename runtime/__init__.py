"""Memory, devices, compiled routines and their caches, random numbers."""
