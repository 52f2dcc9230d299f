"""Places in the user's text, also of events inside a library layer."""

import re
from dataclasses import dataclass, replace

from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.problem import Edit, Help, Problem, Remark, Report, suggested_fix
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.spelling import corrected, meant
from meganeura_dsl.diagnostics.wording import quoted

FIRST = " where "
"""The text before the first clause of a `where`, on the signature's line if that stays short."""

WIDTH = 100
STATE_IT = "state it where the sizes come from"
TOO_LATE = "no fact of `where` is known here yet: compute this in the body, or in `where` itself"


@dataclass(frozen=True)
class Clause:
    """The place where a block can state one more fact, the text before it, and usable names.

    `before` says that it has to stand before the clause at `span`, which does not know later ones.
    """

    span: Span
    lead: str
    names: frozenset[str]
    before: bool = False

    def edit(self, fact: str) -> Edit | None:
        """The edit that states a fact; None if the fact uses what the block has no name for."""
        if self.unknown(fact):
            return None
        if self.before:
            return Edit(self.span, f"{self.lead}{fact}, ")
        implied = self._implied_by(fact)
        if implied is not None:
            return Edit(implied, fact)
        line = self.span.source.line(self.span.line)
        is_long = self.lead == FIRST and len(line) + len(self.lead) + len(fact) > WIDTH
        return Edit(self.span, ("\n    where " if is_long else self.lead) + fact)

    def unknown(self, fact: str) -> tuple[str, ...]:
        """The names in a fact that the block has none for here, such as the index of a loop."""
        words = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", fact))
        return tuple(each for each in words if each not in {"and", "or", "not", *self.names})

    def _implied_by(self, fact: str) -> Span | None:
        """The clause `h % 2 == 0` before, in whose place `h % 4 == 0` can stand."""
        divided = re.fullmatch(r"(\w+) % (\d+) == 0", fact)
        text = self.span.source.text
        start = text.rfind("where ", 0, self.span.start)
        if divided is None or self.lead == FIRST or start < 0:
            return None
        clause = re.compile(rf"(?<=[ ,]){divided[1]} % (\d+) == 0(?=\s*(?:,|$))")
        for found in clause.finditer(text, start, self.span.start):
            if int(found[1]) and int(divided[2]) % int(found[1]) == 0:
                return Span(self.span.source, found.start(), found.end())
        return None


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
    where: "Clause | None" = None
    """The place where the block that is being proved can state a further fact."""
    precedes_where: bool = False
    """True if no `where` of the block is known yet, as in its defaults and the types of inputs."""

    def outside(self) -> "Location":
        """The same place, without what happens below it."""
        return replace(self, inside=())

    def stating(self, text: str, fact: str) -> Help:
        """Advice to state a fact in `where`; a suggested fix where all paths of a block need it."""
        if self.precedes_where:
            return Help(TOO_LATE)
        edit = None
        if self.where is not None and self.where.before:
            text = f"{text}, before this clause"
        if self.where is not None and not self.path_condition:
            edit = self.where.edit(fact)
            unknown = self.where.unknown(fact)
            if unknown and not self.where.before:
                return Help(
                    f"`where` has no name for {quoted(unknown, 'and')} and cannot state `{fact}`:\n"
                    "are the axis and the numbers here the ones that are meant?"
                )
        return Help(text, f"where {fact}") if edit is None else suggested_fix(text, edit)

    def remarks(self) -> tuple[Remark, ...]:
        """The remarks that a message needs so that the place is understood."""
        remarks = [
            Remark(f"inside `{name}`", span.text.split("\n")[0], span) for name, span in self.inside
        ]
        if self.path_condition:
            remarks.append(Remark("on the path where", self.path_condition))
        return tuple(remarks)


def did_you_mean(location: Location, word: str, nearest: tuple[str, ...]) -> Help | None:
    """Advice on a word that is misspelt, if some known ones are like it.

    None on a name that other systems have: who writes it means that, and not what looks like it.
    """
    if not nearest or word.rpartition(".")[2] in foreign_names():
        return None
    right = meant(word, nearest)
    offered = nearest if right is None else (right,)
    return corrected(location.span, word, nearest, f"did you mean {quoted(offered, 'or')}?")


def counted(number: int, noun: str) -> str:
    """A number of things: `1 tensor`, `2 tensors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class LocatedProblem(Problem):
    """A problem at a place of the elaborated program; subclasses supply the words."""

    location: Location

    def words(
        self,
        headline: str,
        label: str = "",
        *,
        remarks: tuple[Remark, ...] = (),
        cure: Help | None = None,
    ) -> Report:
        """The report of these words at this place."""
        return self.message(
            headline,
            *self.location.remarks(),
            *remarks,
            span=self.location.span,
            label=label,
            cure=cure,
            path=self.location.path,
        )

    def stated(self, fact: str) -> Help | None:
        """Advice to state the fact that would decide what failed, if there is one."""
        return self.location.stating(STATE_IT, fact) if fact else None
