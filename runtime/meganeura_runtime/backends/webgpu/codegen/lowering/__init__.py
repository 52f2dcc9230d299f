"""Lowering of ops for kernels: an element read in place, a reduction or a contraction."""
