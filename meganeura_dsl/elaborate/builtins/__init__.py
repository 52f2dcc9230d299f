"""The functions the language starts from."""
