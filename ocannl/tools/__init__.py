"""Command-line tools, and the registration of dialects and passes with those of xDSL."""
