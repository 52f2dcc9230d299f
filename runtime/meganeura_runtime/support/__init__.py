"""A thread of its own, and trace hooks."""
