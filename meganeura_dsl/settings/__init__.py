"""The settings of a run: as written, judged, and what can be wrong with them."""
