"""Sizes as integer polynomials, conditions on them, and the facts assumed of them."""
