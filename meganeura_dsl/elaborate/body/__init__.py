"""The walk over statements and expressions of a block."""
