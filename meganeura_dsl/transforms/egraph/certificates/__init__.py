"""Certificates of a run of the optimizer: chains of rule instances, for the checker in `verify/`.

`graph_record` writes graphs, `guide` reads a saturated e-graph, `relevance` says which places of it
the second graph may be due to, `pattern_matching` finds where rules apply, `chain_search` finds the
chain from one graph to the other and leaves out what it does not need, `run_certificate` puts
all of it into a file.
"""
