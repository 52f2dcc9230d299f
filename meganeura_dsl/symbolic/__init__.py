"""Sizes as integer polynomials, the facts known of them, and tensor types built from them."""
