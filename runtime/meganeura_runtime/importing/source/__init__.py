"""Modules of PyTorch source, exported in a separate process and read as programs."""
