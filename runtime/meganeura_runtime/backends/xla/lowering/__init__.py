"""Lowering of each op to `jax.lax`, one family a file."""
