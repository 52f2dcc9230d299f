"""A kernel as data, and the kernels without tiles."""
