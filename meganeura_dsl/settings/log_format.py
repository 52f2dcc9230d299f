"""Logs for other tools that a run keeps beside its own."""

from enum import StrEnum


class LogFormat(StrEnum):
    """The tool that reads a log."""

    TENSORBOARD = "tensorboard"
    """Event files of TensorBoard."""
    WANDB = "wandb"
    """A run of Weights & Biases."""
