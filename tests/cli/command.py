"""The outcome of a command, as tests see it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]
"""`meganeura("check", "resnet18")`"""
