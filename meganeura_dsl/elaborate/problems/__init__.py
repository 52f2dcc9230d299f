"""What can be wrong with names, shapes and training, and the words for it."""
