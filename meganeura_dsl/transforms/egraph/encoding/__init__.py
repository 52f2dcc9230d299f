"""Graphs as e-graphs and back to nodes; the only door to egglog."""
