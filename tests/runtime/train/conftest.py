"""Runs of the same few programs, which are optimized once for all of them."""

import pytest


@pytest.fixture(autouse=True)
def _optimized_once(optimized_once: None) -> None:
    """For every test of this folder."""
