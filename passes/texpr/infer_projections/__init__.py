"""The pass `infer-projections` and its parts: iteration spaces and index maps from logics and specs."""
