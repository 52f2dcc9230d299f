"""Importers, which translate models of other systems into programs."""
