"""A training run: prepared from a program and its settings, looped, watched and kept on disk."""
