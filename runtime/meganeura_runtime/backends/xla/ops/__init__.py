"""Ops that only graphs for XLA contain."""
