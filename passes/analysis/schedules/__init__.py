"""Schedules of nests: which there are, and what they share."""
