"""Where in the user's text something happens, even when it happens inside a library layer."""

from dataclasses import dataclass, replace

from meganeura_dsl.diagnostics.problem import Help, Label, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


@dataclass(frozen=True)
class Location:
    """A span in the user's own text, the layer's parameter path, and how one got there.

    `inside` names what was being expanded below the span, outermost first, as (name, span).
    `path_condition` says on which side of the undecided choices the program was.
    """

    span: Span
    path: str = ""
    inside: tuple[tuple[str, Span], ...] = ()
    path_condition: str = ""

    def outside(self) -> "Location":
        """The same place, without what happens below it."""
        return replace(self, inside=())

    def label(self, text: str = "") -> Label:
        """The place with a text that stands at it."""
        return Label(self.span, text)

    def remarks(self) -> tuple[Remark, ...]:
        """What to add to a message so that the place is understood."""
        remarks = [
            Remark(f"inside `{name}`", span.text.split("\n")[0], span) for name, span in self.inside
        ]
        if self.path_condition:
            remarks.append(Remark("on the path where", self.path_condition))
        return tuple(remarks)


def counted(number: int, noun: str) -> str:
    """A number of things: `1 tensor`, `2 tensors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@dataclass(frozen=True)
class PlacedProblem(Problem):
    """A problem at a place of the elaborated program; subclasses supply the words."""

    place: Location

    def words(
        self,
        headline: str,
        label: str = "",
        *,
        remarks: tuple[Remark, ...] = (),
        cure: Help | None = None,
    ) -> Report:
        """The report of these words at this place."""
        return Report(
            code=self.code,
            severity=self.severity,
            headline=headline,
            topic=self.topic,
            label=self.place.label(label),
            remarks=(*self.place.remarks(), *remarks),
            help=cure,
            path=self.place.path,
        )
