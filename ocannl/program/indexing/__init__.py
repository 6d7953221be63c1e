"""Parts of tensors: slices, new axes, and positions that are the values of integer tensors."""
