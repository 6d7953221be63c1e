"""The nodes of a routine: who reads and writes them, when, and where they are kept."""
