"""Mixtures of experts: the block, its routing, and the buffers of its tokens."""
