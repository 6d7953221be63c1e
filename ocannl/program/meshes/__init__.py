"""Meshes of ranks, and the tensors and stages that are split over them."""
