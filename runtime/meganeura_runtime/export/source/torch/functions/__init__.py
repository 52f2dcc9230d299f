"""The functions that the language starts from, as PyTorch has them."""
