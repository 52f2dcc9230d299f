"""Backends, which run graphs: one folder each, and one registration."""
