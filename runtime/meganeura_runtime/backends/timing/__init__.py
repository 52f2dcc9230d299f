"""Timing of steps: example inputs, a timer, and the parts of profiles and traces."""
