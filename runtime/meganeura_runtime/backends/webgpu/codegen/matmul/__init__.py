"""Contraction kernels: register tiles, shared-memory tiles, subgroup shuffles."""
