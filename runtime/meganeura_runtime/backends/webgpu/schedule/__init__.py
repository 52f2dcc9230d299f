"""Lowered graph to plan: fusion, order, kernel text."""
