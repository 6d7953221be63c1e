"""Stands for the package cuda-bindings in processes that find it first."""
