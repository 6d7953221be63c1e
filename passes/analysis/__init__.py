"""Analyses: answers about a program that several passes, lowerings or the runtime ask for. They change
nothing, and import no pass and no rewrite.
"""
