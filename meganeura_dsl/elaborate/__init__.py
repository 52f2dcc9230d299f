"""Elaboration of a syntax tree to a typed graph: names, shapes and their proofs."""
