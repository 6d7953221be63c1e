"""Convolutions, pooling and what else reads images by windows."""
