"""The pass `infer-shapes` and its parts: constraints, and a solver that knows nothing of programs."""
