"""Element types and shapes of tensors, as users give and see them."""
