"""Ops that only lowered graphs contain."""
