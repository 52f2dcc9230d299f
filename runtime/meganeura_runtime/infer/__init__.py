"""A model run on inputs from files: which feeds what, in which sizes."""
