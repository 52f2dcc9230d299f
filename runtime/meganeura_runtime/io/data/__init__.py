"""Examples in files: found, matched with the inputs of a program, and dealt out in batches."""
