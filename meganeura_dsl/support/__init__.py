"""Files, the disk cache and the trace of a build: what any room may need."""
