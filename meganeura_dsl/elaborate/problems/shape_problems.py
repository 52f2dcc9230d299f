"""Problems of shapes and element types, and their words."""

import re
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, Remark, Report, Severity
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location


@dataclass(frozen=True)
class Example:
    """Sizes for which a claim fails, and what it comes to there."""

    sizes: tuple[tuple[str, int], ...]
    consequence: str

    def remark(self) -> Remark:
        """The line `for example  stride=2  c_in=c=64  gives  x [n, 64]  y [n, 32]`."""
        by_value: dict[str, list[str]] = {}
        for name, value in self.sizes:
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            by_value.setdefault(shown, []).append(name)
        sizes = "  ".join(f"{'='.join(names)}={value}" for value, names in by_value.items())
        parts = [part for part in (sizes, self.consequence) if part]
        return Remark("for example" if sizes else "that is", "   gives   ".join(parts))


def example_remarks(example: Example | None) -> tuple[Remark, ...]:
    """The remark of an example, if there is one."""
    if example is None or not (example.sizes or example.consequence):
        return ()
    return (example.remark(),)


def _remark(title: str, text: str, span: Span | None = None) -> tuple[Remark, ...]:
    return (Remark(title, text, span),) if text else ()


class ShapeMismatch(LocatedProblem, code="E0301", topic="refuted shape equality"):
    """Two tensors meet whose shapes differ for some sizes."""

    operator: str
    left: tuple[str, str]
    right: tuple[str, str]
    example: Example | None
    changed: tuple[tuple[str, Location], ...]
    axes: str = ""
    """The differing axes of both sides, in words."""
    cure: Help | None = None
    met: Span | None = None
    """The place where they meet, if the location is that of the condition that leads there."""

    def report(self) -> Report:
        (left, left_shape), (right, right_shape) = self.left, self.right
        origin = tuple(
            Remark(f"{name} changed here", location.span.text.split("\n")[0], location.span)
            for name, location in self.changed
        )
        return self.words(
            f"the two sides of `{self.operator}` have different shapes",
            f"{left}: {left_shape}\n{right}: {right_shape}",
            remarks=(
                *_remark("these meet", self.axes, self.met),
                *example_remarks(self.example),
                *origin,
            ),
            cure=self.cure,
        )


class RankMismatch(LocatedProblem, code="E0302", topic="number of axes"):
    """A tensor has another number of axes than the place it stands in needs."""

    what: str
    wanted: str
    found: str
    cure: Help | None = None

    def report(self) -> Report:
        return self.words(
            f"{self.what} needs {self.wanted}", f"this is {self.found}", cure=self.cure
        )


class ResultMismatch(LocatedProblem, code="E0303", topic="result shape"):
    """A block returns another shape than its signature promises."""

    block: str
    declared: str
    found: str
    example: Example | None
    cure: Help | None = None

    def report(self) -> Report:
        return self.words(
            f"`{self.block}` returns another shape than it says",
            f"found    {self.found}\ndeclared {self.declared}",
            remarks=example_remarks(self.example),
            cure=self.cure,
        )


class WrittenMismatch(ResultMismatch):
    """A value is written to a place of another type: a part, a state, an input by default.

    `block` is the place.
    """

    def report(self) -> Report:
        return self.words(
            f"`{self.block}` is given another shape than it has",
            f"given  {self.found}\nit has {self.declared}",
            cure=self.cure,
        )


class RearrangeMismatch(LocatedProblem, code="E0304", topic="rearrangement"):
    """A rearrangement does not fit the tensor, or loses or invents an axis."""

    fault: str
    found: str
    example: Example | None = None
    fact: str = ""
    cure: Help | None = None
    """The cure if no fact helps."""

    def report(self) -> Report:
        return self.words(
            self.fault,
            self.found,
            remarks=example_remarks(self.example),
            cure=self.stated(self.fact) or self.cure,
        )


class AmbiguousRearrangement(LocatedProblem, code="E0219", topic="rearrangement"):
    """Two axes of a rearrangement are written the same, and it could mean either."""

    either: str
    other: str

    def report(self) -> Report:
        return self.words(
            "this can be read in two ways",
            remarks=(Remark("either", self.either), Remark("or", self.other)),
            cure=Help("give equal axes names of their own, and write the one that you mean"),
        )


class TooSmall(LocatedProblem, code="E0305", topic="size bound"):
    """A result would have no elements, because a window or a kernel is larger than its input."""

    what: str
    condition: str
    found: str
    example: Example | None
    fact: str
    cure: Help | None = None
    """The cure if no fact helps."""

    def report(self) -> Report:
        return self.words(
            f"cannot show for every size that {self.what}",
            f"needs {self.condition}\n{self.found}".rstrip(),
            remarks=example_remarks(self.example),
            cure=self.stated(self.fact) or self.cure,
        )


class UnstableLoop(LocatedProblem, code="E0306", topic="induction"):
    """A loop whose number of iterations is a symbol changes a shape, or two branches disagree."""

    name: str
    before: str
    after: str

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` does not keep its shape",
            f"before {self.before}\nafter  {self.after}",
            cure=Help(
                f"let an iteration keep the shape of `{self.name}`, or let a parameter say "
                "how many iterations there are"
            ),
        )


class ElementTypeMismatch(LocatedProblem, code="E0307", topic="element type"):
    """Two tensors of different element types meet, or an operation does not take this type."""

    what: str
    found: str
    cure: str | Help = "convert with f32(...), f16(...), i32(...), u32(...) or bool(...)"

    def report(self) -> Report:
        cure = Help(self.cure) if isinstance(self.cure, str) else self.cure
        return self.words(self.what, self.found, cure=cure)


class ArgumentMismatch(LocatedProblem, code="E0308", topic="argument shape"):
    """A tensor does not have the shape the block's signature asks for."""

    block: str
    input: str
    declared: str
    found: str
    axis: int
    example: Example | None
    fact: str = ""
    advice: str = ""
    """The advice if no fact helps."""
    order: Help | None = None
    """The call with its arguments in the order of the inputs, if they are called as these are."""

    def report(self) -> Report:
        return self.words(
            f"`{self.block}` cannot take this tensor as `{self.input}`",
            f"found    {self.found}\ndeclared {self.declared}",
            remarks=(Remark("axis", str(self.axis)), *example_remarks(self.example)),
            cure=self.order
            or self.stated(self.fact)
            or (Help(self.advice) if self.advice else None),
        )


class WhereUnproved(LocatedProblem, code="E0311", topic="unmet condition"):
    """A block is applied where its `where` clause does not always hold."""

    block: str
    clause: str
    values: str
    clause_location: Location
    example: Example | None
    fact: str
    cure: str = ""
    rather: str = ""
    """Code that is likelier meant than the fact."""

    def report(self) -> Report:
        stated = Remark("stated here", self.clause_location.span.text, self.clause_location.span)
        return self.words(
            f"`{self.block}` needs `{self.clause}`",
            f"where {self.values}" if self.values else "",
            remarks=(stated, *example_remarks(self.example)),
            cure=(Help(self.rather) if self.rather else None)
            or self.stated(self.fact)
            or (Help(self.cure) if self.cure else None),
        )


class ImpossibleWhere(LocatedProblem, code="E0313", topic="impossible condition"):
    """The clauses of a `where` exclude each other, so that nothing could ever satisfy them."""

    block: str

    def report(self) -> Report:
        return self.words(
            f"no sizes satisfy the `where` of `{self.block}`",
            "this and what stands before it exclude each other",
            cure=Help("leave one of them out, or turn its comparison round"),
        )


class MissingFact(LocatedProblem, code="E0312", topic="missing fact"):
    """Something holds for some sizes and not for others, and one fact would decide it."""

    what: str
    left: tuple[str, str]
    right: tuple[str, str]
    example: Example | None
    fact: str

    def report(self) -> Report:
        (left, left_size), (right, right_size) = self.left, self.right
        return self.words(
            f"cannot show that {self.what} for every size",
            f"{left} {left_size}\n{right} {right_size}",
            remarks=(*example_remarks(self.example), Remark("they agree when", self.fact)),
            cure=self.location.stating("state it (callers will have to prove it)", self.fact),
        )


class NormOverOne(LocatedProblem, code="E0314", topic="degenerate norm"):
    """A mean and variance are taken over a single element, so the result is always the bias."""

    axes: str

    def report(self) -> Report:
        return self.words(
            "this variance is over one element",
            f"{self.axes} hold 1 element in all",
            cure=Help(
                "leave the norm out here, or take it over more elements, such as `layer_norm`"
            ),
        )


class TypeRuleBroken(LocatedProblem, code="E0320", topic="operands"):
    """An operation does not take operands of this kind."""

    what: str
    found: str
    cure: Help | None = None
    remarks: tuple[Remark, ...] = ()

    def report(self) -> Report:
        return self.words(self.what, self.found, remarks=self.remarks, cure=self.cure)


class UnsolvedSize(LocatedProblem, code="E0321", topic="size of an input"):
    """A name in the size of an input does not follow from that size."""

    name: str

    def report(self) -> Report:
        return self.words(
            f"nothing says what `{self.name}` is",
            f"`{self.name}` does not follow from this size where the block is applied",
            cure=Help(f"name `{self.name}` in the configuration, or as an axis of its own"),
        )


class NormMayDegenerate(
    LocatedProblem, code="N0002", topic="degenerate norm", severity=Severity.NOTE
):
    """A mean and variance may be taken over a single element for some sizes of the data."""

    count: str
    example: Example | None

    def report(self) -> Report:
        return self.words(
            "this variance may be over one element",
            f"it is taken over {self.count} elements",
            remarks=example_remarks(self.example),
        )


class ZeroDivisor(LocatedProblem, code="E0322", topic="division by zero"):
    """A size is divided, by `//` or `%`, by one that is zero for some sizes."""

    condition: str
    example: Example | None
    fact: str

    def report(self) -> Report:
        return self.words(
            "cannot show for every size that this divisor is not zero",
            f"needs {self.condition}",
            remarks=example_remarks(self.example),
            cure=self.stated(self.fact)
            or Help("divide by what is at least 1: let a loop begin later, or add 1"),
        )


class PartOutside(LocatedProblem, code="E0315", topic="index range"):
    """A part of a tensor may lie outside of it."""

    found: str
    example: Example | None
    fact: str
    rather: Help | None = None
    """A cure that is likelier meant than a fact: another axis, or other iterations of a scan."""

    def report(self) -> Report:
        return self.words(
            "a part may lie outside of its axis",
            self.found,
            remarks=example_remarks(self.example),
            cure=self.rather or self.stated(self.fact),
        )


class PartOfNoSize(LocatedProblem, code="E0316", topic="subscript"):
    """The size of a part of a tensor depends on data, and every shape is known before any is."""

    length: str

    def report(self) -> Report:
        return self.words(
            "the size of this part depends on data",
            f"{self.length} is no size",
            cure=Help("take a part of a fixed size, `x[:, p:p + k]`, and mask the rest"),
        )


class IndexOverrun(LocatedProblem, code="E0323", topic="index range"):
    """An index is out of range, whatever the program is fed."""

    value: str
    count: str
    is_above: bool
    is_reached: bool
    applied: Span | None = None
    """The place where these sizes were applied, if it is another one."""
    written: str = ""
    """The text of the index, if it is short and not where the message points."""
    begins: str = ""
    """The smallest index that is reached, if that is known."""

    def report(self) -> Report:
        needed, value = _of_index(self)
        applied = () if self.applied is None else (_applied_here(self.applied),)
        cure = (
            self._of_overrun()
            if self.is_above
            else "an index counts from 0, and never from the end"
        )
        return self.words(
            f"an index is {value}, and must be {needed}",
            f"picks one of {self.count}",
            remarks=applied,
            cure=Help(cure),
        )

    def _of_overrun(self) -> str:
        """Advice on an index that is too large: it begins too late, or the axis is too short."""
        which = f"`{self.written}`" if self.written else "the index"
        last = f"{int(self.count) - 1}" if self.count.isdecimal() else f"{self.count} - 1"
        if self.begins == "0":
            return (
                f"{which} counts from 0 to {self.value}: pick from more than {self.value}, or "
                "count fewer"
            )
        start = f" and begins at {self.begins}" if self.begins else ""
        cure = f"make it smaller, or if it is meant so, pick from more than {self.value}"
        if _without_one(self.written):
            cure = "leave the `+ 1` out"
        return (
            f"an index counts from 0, so the last of {self.count} is {last}; {which} goes up to "
            f"{self.value}{start}:\n{cure}"
        )


def _without_one(index: str) -> str:
    """Returns `iota(s)` for `iota(s) + 1` and for `1 + iota(s)`; empty for another index."""
    counted = re.fullmatch(r"(iota\([^()]*\)) \+ 1|1 \+ (iota\([^()]*\))", index)
    return (counted[1] or counted[2]) if counted else ""


def _of_index(index: "IndexOverrun | IndexMayOverrun") -> tuple[str, str]:
    """Returns the range that an index needs, and the range that it has."""
    needed, more = (f"below {index.count}", "more") if index.is_above else ("at least 0", "less")
    return needed, index.value if index.is_reached else f"{index.value} or {more}"


def _applied_here(span: Span) -> Remark:
    """Returns the remark about the application of a block that is wrong inside."""
    line = span.source.line(span.line).strip()
    return Remark("applied here", line, span)


class IndexMayOverrun(LocatedProblem, code="N0005", topic="index range", severity=Severity.NOTE):
    """For some sizes an index is out of range, whatever the program is fed."""

    value: str
    count: str
    is_above: bool
    is_reached: bool
    example: Example | None
    fact: str
    late: str = ""
    """The text of the index, if it begins above 0."""
    begins: str = ""
    """The smallest index that is reached, if that is known."""

    def report(self) -> Report:
        needed, value = _of_index(self)
        reaches = "goes up to" if self.is_above else "goes down to"
        text, code = "to have it proved, state what it needs", f"where {self.fact}"
        if self.late:
            begun = f"an index counts from 0, and `{self.late}` begins at {self.begins}"
            text = f"{begun}: make it smaller,\nor if it is meant so, state what it needs"
            if earlier := _without_one(self.late):
                text = f"{begun}: leave the `+ 1` out\n(if it is meant so, state `{code}`)"
                code = earlier
        cure = Help(text, code)
        return self.words(
            "this index is out of range for some sizes",
            f"it {reaches} {value}, and has to be {needed}",
            remarks=example_remarks(self.example),
            cure=cure if self.fact else None,
        )
