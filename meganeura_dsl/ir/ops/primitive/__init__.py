"""The primitive ops, one family a file; each class is type rule, reference and gradient."""
