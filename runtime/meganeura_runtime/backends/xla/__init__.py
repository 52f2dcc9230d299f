"""The backend that compiles a whole step by XLA, through JAX."""

CACHE = "xla"
"""Folder of our cache in which JAX keeps compiled programs."""
