"""How values meet types: broadcasting, shape patterns, signatures."""
