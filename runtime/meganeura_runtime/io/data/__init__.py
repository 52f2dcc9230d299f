"""Examples in files: located, matched with the inputs of a program, split into batches."""
