"""Tensors in files: found, distrusted, read to the type that is wanted, and written whole."""
