"""Expressions, index arithmetic and their WGSL text."""
