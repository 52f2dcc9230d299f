"""The functions that the language starts from: their arguments and patterns, read."""
