"""Equality saturation: a graph in, the cheapest graph with the same meaning out."""

from meganeura_dsl.optimize.optimizer import Optimized, optimize

__all__ = ["Optimized", "optimize"]
