"""Verification of the graph after each pass of a backend."""

import os

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.verify import GraphError, verify

VERIFY = "MEGANEURA_VERIFY"
"""Set this variable to 1 to verify the graph after each pass; the test suite does."""


class PassError(Exception):
    """A pass broke an invariant of the graph; the message names the pass and the value."""


def verify_after(name: str, graph: Graph) -> None:
    """Raises `PassError` for an invalid graph after a pass, if `VERIFY` is set."""
    if os.environ.get(VERIFY) != "1":
        return
    try:
        verify(graph)
    except GraphError as error:
        raise PassError(f"after {name}: {error}") from error
