"""Networks and blocks that are known by a name."""
