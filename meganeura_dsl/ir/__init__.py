"""The graph: typed values in a DAG, its text form and its verifier."""
