"""Equality but for names: of nests, of steps and of whole layers."""
