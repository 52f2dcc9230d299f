"""Facts about a graph that passes and the lowering read; no graph is changed here."""
