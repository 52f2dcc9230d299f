"""What passes and fusion ask of a graph: which values are stored, how each is read."""
