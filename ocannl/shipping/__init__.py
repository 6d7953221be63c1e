"""Routines as libraries that run without Python: object files with a header for C, and wheels."""
