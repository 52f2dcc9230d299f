"""Proofs that rewrite rules and pullbacks are right over the real numbers, for all sizes."""
