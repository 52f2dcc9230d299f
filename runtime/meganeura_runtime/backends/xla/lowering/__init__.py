"""Graph to `jax.lax`: what each op is, one family a file."""
