"""Caches on disk: object code, compiled routines, inferred types, tuned schedules."""
