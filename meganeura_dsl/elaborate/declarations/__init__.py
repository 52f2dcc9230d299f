"""One entry for each kind of declaration: block, model, training, expectation."""
