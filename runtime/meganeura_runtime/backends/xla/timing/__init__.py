"""Profiles and traces of steps, by JAX's own profiler."""
