"""Weights of blocks in other forms: quantized, or with something of low rank beside them."""
