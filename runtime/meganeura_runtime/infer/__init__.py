"""A model run on inputs from files: which file feeds which input, in which sizes."""
