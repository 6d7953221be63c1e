"""Values and the operations that they depend on."""
