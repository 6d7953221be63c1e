"""Passes from tensor expressions to tensor expressions: inference of shapes, precisions and index maps,
derivatives, and the folding of equal layers.
"""
