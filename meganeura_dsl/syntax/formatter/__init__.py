"""Syntax tree to canonical text."""
