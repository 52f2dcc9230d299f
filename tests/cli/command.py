"""What a test sees of the command line."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]
"""`meganeura("check", "resnet18")`"""
