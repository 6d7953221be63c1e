"""Loops that run when the program runs: scans, loops with a condition, branches, fixed points."""
