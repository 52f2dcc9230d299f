"""Measuring: what each kernel of a step takes, when it ran, and which of several is fastest."""
