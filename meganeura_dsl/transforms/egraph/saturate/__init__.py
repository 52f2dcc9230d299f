"""Rules run on an e-graph until nothing is new, within bounds."""
