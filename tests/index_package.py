"""Tests take this package for one of an index: no text of theirs names the folder of a checkout."""

from meganeura_dsl.support import installation

ORIGIN = installation._origin.__wrapped__
"""Reads where the package was installed from."""


def take_for_index_package() -> None:
    """In this process, whatever its metadata say."""
    installation.__dict__["_origin"] = dict
