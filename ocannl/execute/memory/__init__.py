"""Memory on devices: nodes, tensors, and what is shared with other libraries."""
