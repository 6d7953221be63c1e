"""The pass `inline-nodes`, and how it tells where a value is computed."""
