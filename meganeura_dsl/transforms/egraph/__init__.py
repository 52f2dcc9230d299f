"""Equality saturation: a graph in, the cheapest graph with the same meaning out."""
