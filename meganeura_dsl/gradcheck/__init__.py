"""Gradients held against finite differences, on sizes and numbers drawn for the purpose."""
