"""A step on example inputs, timed on a warm device."""
