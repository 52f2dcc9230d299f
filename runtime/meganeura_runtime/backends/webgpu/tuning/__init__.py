"""The search for the fastest config of each contraction."""
