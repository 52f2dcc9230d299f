"""WGSL kernels as text: expressions, index arithmetic and one module for each archetype."""
