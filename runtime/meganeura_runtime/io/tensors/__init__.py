"""Tensors in files: validated, converted to types of graphs, written atomically."""
