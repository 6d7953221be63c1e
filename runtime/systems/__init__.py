"""Questions to the operating system, by a table of systems."""
