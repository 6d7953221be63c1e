"""The search for schedules that are faster when they run."""
