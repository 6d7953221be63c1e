"""Processors: what schedules and code have to know of them."""
