"""Passes from graph to graph that no backend has a say in."""
