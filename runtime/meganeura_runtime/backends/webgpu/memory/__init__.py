"""Offsets for tensors by their lifetimes, and what a plan takes."""
