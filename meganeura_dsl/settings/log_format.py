"""Which logs of other tools a run keeps beside its own."""

from enum import StrEnum


class LogFormat(StrEnum):
    """Who reads a log."""

    TENSORBOARD = "tensorboard"
    """Event files of TensorBoard."""
    WANDB = "wandb"
    """A run of Weights & Biases."""
