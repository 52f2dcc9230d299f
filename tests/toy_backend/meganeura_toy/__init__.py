"""A backend of another package: a folder, and an entry point in its metadata."""
