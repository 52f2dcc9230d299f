"""Analyses for passes and fusion: which values are stored, and how each is read."""
