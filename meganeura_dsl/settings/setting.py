"""The metadata of one setting of a training run."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of `run:`, beside the type and the bounds that its field declares."""

    meaning: str
    """One line for the documentation."""
    example: str
    """A value as it is written in a program."""
    is_resumable: bool = False
    """True for a setting that a resumed run may be given anew, as no formula of a step uses it."""
    is_bare: bool = False
    """True for a text that needs no quotes after `--set`, as a shell removes them."""
    default_choice: str = ""
    """The default word, such as `adam`, of a setting that chooses by a word."""
    default: object = None
    """The default of its field."""


@dataclass(frozen=True)
class ForPaths:
    """A field with the values of a setting for some paths, as in `optimizer["*.bias"] = sgd`."""

    setting: str
