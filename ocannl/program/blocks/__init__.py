"""Blocks: functions with parameters, their parts and their summaries."""
