"""The pass `split-stages`: the program of each stage, microbatch by microbatch."""
