"""Checks certificates of Meganeura with the standard library alone: no compiler, no e-graph.

`runs` checks that an optimized graph equals the graph before it, by the rules of `rules.json`.
`shapes` checks what was proved and refuted of the sizes of a program.
"""

VERSION = "1"
"""The version of the formats that are read."""


class CertificateError(Exception):
    """A certificate does not show what it claims; the message names the step and the reason."""


def require(condition: bool, reason: str) -> None:  # noqa: FBT001 - as in `assert`
    """Raise `CertificateError` unless the condition holds."""
    if not condition:
        raise CertificateError(reason)
