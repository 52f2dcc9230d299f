"""Mistakes that were once made in earnest, here or in other compilers for neural networks.

They are in the files of `scripts/plants`, one for each part of the system: a text that is right,
one that is wrong, and the tests of which one has to fail. `scripts/plant_bugs.py` plants them.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plant:
    """A mistake: what replaces what in a file, and the tests of which one has to fail."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


PLANTS = tuple(
    Plant(**(entry | {"tests": tuple(entry["tests"])}))
    for file in sorted(Path(__file__).with_suffix("").glob("*.toml"))
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["plant"]
)
