"""Atomic writes, and problems of files."""
