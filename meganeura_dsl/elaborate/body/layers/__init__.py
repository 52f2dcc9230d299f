"""Layers and block values: declared, configured, applied."""
