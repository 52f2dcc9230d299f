"""Measured choices, as data."""
