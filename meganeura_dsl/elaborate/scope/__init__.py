"""The meaning of names while a block is elaborated."""
