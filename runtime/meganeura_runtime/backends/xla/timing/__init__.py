"""Where the time of a step goes, by JAX's own profiler."""
