"""Limits of a program, and the budget of work of a check."""
