"""Text to syntax tree, and the mistake behind a text that has none."""
