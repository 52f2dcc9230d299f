"""A program that is refused, and the words of the one message about it."""

from dataclasses import dataclass

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source

UNUSED = "E0207"
"""The code of names that are never read: short programs have them."""


@dataclass(frozen=True)
class Refusal:
    """A program, and the one message about it."""

    name: str
    text: str
    code: str
    headline: str
    label: str
    """The first line beside the place."""

    def __repr__(self) -> str:
        return self.name

    def require(self) -> None:
        """Asserts that the program is refused in these words, and in no others."""
        reports = pipeline.check(Source("example.mgn", self.text), lambda _: None).reports
        (report,) = (each for each in reports if each.code != UNUSED)
        assert (report.code, report.headline) == (self.code, self.headline)
        assert report.label is not None
        assert report.label.text.split("\n")[0] == self.label
