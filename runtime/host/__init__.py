"""The processor of this process, for all devices: its description, its JIT, loops of runs."""
