"""Execution of each form of statement."""
