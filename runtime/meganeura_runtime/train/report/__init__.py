"""The page of a run: what its folder holds, as curves, tables and pictures in one HTML file."""
