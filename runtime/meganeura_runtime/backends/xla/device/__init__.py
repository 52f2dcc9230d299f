"""Devices of JAX: names, processes, placement of arrays, options of compilation."""
