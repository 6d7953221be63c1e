"""Functions of tensors, as `oc` has them: operators, reductions, einsums, shapes, random numbers."""
