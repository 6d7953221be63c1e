"""Several ranks: their parts of memory, their runs, and the engines by which they talk."""
