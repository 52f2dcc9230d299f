"""What can be wrong with a text, and the words for it."""
