"""Running programs: contexts, routines, reports and tuning."""
