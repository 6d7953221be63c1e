"""Passes from loops to loops: inlining, fusion, scheduling, memory."""
