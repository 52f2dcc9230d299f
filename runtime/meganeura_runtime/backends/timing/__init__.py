"""What a step takes: example inputs, a timer, and what a profile or a trace consists of."""
