"""Gradients checked against finite differences, on random sizes and inputs."""
