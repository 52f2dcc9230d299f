"""What runs a graph: one folder a backend, one registration each."""
