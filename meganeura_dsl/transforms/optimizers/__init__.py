"""Optimizers and learning-rate schedules: one class each, with hyperparameters and update rule."""
