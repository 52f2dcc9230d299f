"""Output on a terminal during a run."""
