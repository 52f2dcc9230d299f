"""Adapters, devices and transfers; the only door to wgpu."""
