"""What each op is to a kernel: an element read in place, a reduction or a contraction."""
