"""Evaluation of each form of expression: its value and its type."""
