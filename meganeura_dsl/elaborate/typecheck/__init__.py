"""Typing of values: broadcasting, shape patterns, signatures."""
