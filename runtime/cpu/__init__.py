"""Routines as native code of the CPU, on one thread or on several."""
