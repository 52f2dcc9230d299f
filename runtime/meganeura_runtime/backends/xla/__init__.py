"""The backend that compiles a whole step by XLA, through JAX."""
