"""A compiled model as a page: its interface follows from its inputs, and a browser runs it."""
