"""Problems of the names of weights: two layers that take one, and a layer of another size."""

import re
from collections.abc import Mapping

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location
from meganeura_dsl.elaborate.problems.parameter_problems import scanned
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.syntax.problems.block_text import block_before, block_rest

_DECLARED = re.compile(r"([\w.]+): *\w+(?:\([^()]*\))?")
"""A layer with its label, as `decode: linear(64)`."""


class DuplicatePath(LocatedProblem, code="E0205", topic="naming"):
    """Two layers would store their weights under one name."""

    name: str
    first: Location
    label: str
    types: tuple[str, str] | None = None
    """The weights of the first application of a layer and of this one, if it is applied again."""
    model: str = ""
    """The model, without a label, that was applied before with other arguments than here."""
    loop: str = ""
    """The header of the loop that reaches it more than once, if it is known."""
    is_over_data: bool = False
    """True if a size of the data is how many iterations the loop has."""
    cure: Help | None = None

    def report(self) -> Report:
        written = self.location.span.text
        if self.model:
            return self.words(
                f"`{self.model}` with other arguments needs other weights",
                f"`{self.name}` is taken by an application before",
                cure=Help(f"a label is where its weights are: `|> other: {written}`"),
            )
        if self.types is not None:
            first, again = self.types
            is_here = self.first.span.source == self.location.span.source
            return self.words(
                f"`{self.name}` is {first}, and applied here it would be {again}",
                "applied to another size",
                remarks=self._the_first() if is_here else (),
                cure=self.cure or Help("declare a layer of its own for each size"),
            )
        if self.first.span == self.location.span and "}{" in written:
            advice = "put something between the numbers"
            apart = written.partition(":")[0].replace("}{", '}{"_"}{')
            return self.words(
                f"`{self.name}` is defined twice",
                "several numbers are written the same",
                cure=Help(advice, f"{apart}:"),
            )
        if self.first.span == self.location.span:
            return self.words(
                f"`{self.name}` is defined twice",
                "this is reached more than once",
                cure=self._apart(),
            )
        cure = Help(
            f"give one of them another label, or share the weights by writing `|> {self.label}`"
            if self.label
            else "give one of them another name, or a label where it is applied"
        )
        return self.words(
            f"`{self.name}` is defined twice",
            "the second definition",
            remarks=self._the_first(),
            cure=cure,
        )

    def _the_first(self) -> tuple[Remark, ...]:
        return (Remark("the first", self.first.span.text.split("\n")[0], self.first.span),)

    def _apart(self) -> Help:
        """Returns the cure that gives a layer used more than once one name, or a name each time."""
        if self.is_over_data:
            return Help("the iterations of a `scan` share one set of weights", scanned(self.loop))
        written, index = self.location.span.text, habits.loop_around(self.location.span)
        label, _, rest = written.partition(":")
        if index and rest and all(map(str.isidentifier, label.split("."))):
            named = index.lstrip("_") or "i"
            called = "" if named == index else f", `for {named} in ...`"
            labels = habits.labels_in_loop(self.location.span)
            text = f"give the label the index of the loop{called}"
            if len(labels) > 1:
                listed = ", ".join(f"`{habits.indexed(each, named)}`" for each in labels)
                text = f"give each label in the loop its index{called}:\n{listed}"
            return Help(text, f"{habits.indexed(label, named)}:{rest}")
        return Help(
            "label the block around it where that is applied, `|> name: ...`;\n"
            "in a loop, give the label an index, `layers[i]: ...`"
        )


def applied_again(
    location: Location,
    name: str,
    types: tuple[TensorType, TensorType],
    first: Location,
    label: str,
    weights: Mapping[str, TensorType],
) -> DuplicatePath:
    """The problem of a layer that is applied again to a tensor of another size.

    `types` are those of its weight `name` the first time and now; `weights` are all so far.
    """
    text, span = location.span.source.text, location.span
    cure = whole_pipe_cure(name, types[1], weights, (text[: span.start], text[span.start :]))
    return DuplicatePath(location, name, first, label, (str(types[0]), str(types[1])), cure=cure)


def whole_pipe_cure(
    name: str, again: TensorType, weights: Mapping[str, TensorType], around: tuple[str, str]
) -> Help | None:
    """The layers before the one that is applied again, where the first of them takes the size.

    `name` is the weight that would have the type `again`, `weights` are those of the layers before,
    and `around` is the text before and behind the application. None unless a pipe has both layers.
    """
    label, _, own = name.rpartition(".")
    if not label or "." in label:
        return None
    text = block_before(around[0]) + block_rest(around[1])
    for other, type_ in weights.items():
        first = other.removesuffix(f".{own}")
        is_first = other == f"{first}.{own}" and first != label and type_.rank == again.rank
        if not is_first or type_.shape[-1] != again.shape[-1]:
            continue
        pipe = re.search(rf"\b{re.escape(first)}: [^=\n]*\b{re.escape(label)}(?=: )", text)
        if pipe is not None:
            words = f"`{first}` takes this size, and `{label}` what comes of it: apply all of them"
            return Help(words, "|> " + _DECLARED.sub(r"\1", pipe[0]))
    return None
