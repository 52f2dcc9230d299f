"""The cost of a chosen form at run time."""
