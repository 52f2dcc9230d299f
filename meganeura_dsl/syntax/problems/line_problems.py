"""Problems of lines and bodies, and their words: declarations and statements as a whole.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

from meganeura_dsl.diagnostics.problem import Edit, Help, Report, safe_fix
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems import certainty
from meganeura_dsl.syntax.problems.loop_words import Iterations
from meganeura_dsl.syntax.problems.text_problems import (
    SyntaxProblem,
    kind_if,
    replacing,
    rewritten,
)


class UnexpectedIndentation(SyntaxProblem, code="E0110"):
    """A line is indented more than the one above, which opens no body."""

    is_declaration: bool = False

    def report(self) -> Report:
        cure = "align it with the line above, or begin it with an operator to continue that line"
        if self.is_declaration:
            cure = "declarations begin at the left margin"
        headline, label = "nothing above opens a body here", "this line is indented too far"
        return self.say(headline, label, Help(cure))


class MissingBody(SyntaxProblem, code="E0111"):
    """A line ends with `:`, and no body follows: the next lines, indented further."""

    opener: str

    def report(self) -> Report:
        headline = f"the body of this `{self.opener}` is missing"
        indentation = certainty.body_indentation(self.span)
        edits = () if indentation is None else (Edit(certainty.gap_before(self.span), indentation),)
        cure = safe_fix("write it on the next line, indented", *edits)
        return self.say(headline, "expected here", cure)


class MissingColon(SyntaxProblem, code="E0112"):
    """A line that opens a body has no `:` at its end."""

    opener: str

    def report(self) -> Report:
        return self.say(
            f"this `{self.opener}` needs a colon",
            "the body comes after a `:`",
            self._cure(),
        )

    def _cure(self) -> Help:
        if certainty.opens_body(self.span):
            end = Span(self.span.source, self.span.start, self.span.start)
            return safe_fix("write a colon", Edit(end, ":"))
        return Help("write a colon", rewritten(self.span, ": ").rstrip())


class MisplacedStatement(SyntaxProblem, code="E0124"):
    """A statement stands in a declaration that has no use for it."""

    home: str

    def report(self) -> Report:
        word = self.span.text.split()[0].rstrip(":")
        other = "block" if word == "return" else "train"
        article, uses = ("an", "uses") if self.home == "optimizer" else ("a", "applies")
        headline = f"`{word}` does not belong in {article} `{self.home}`"
        cure = Help(f"move it into a `{other}` that {uses} this {self.home}")
        if word == "return":
            cure = Help("leave it out: a `train` gives no results, and its metrics are shown")
        return self.say(headline, f"this belongs in a `{other}`", cure)


class OutsideDeclaration(SyntaxProblem, code="E0125"):
    """A line at the left margin begins no declaration."""

    is_statement: bool

    def report(self) -> Report:
        cure = "begin it with from, def, block, optimizer, model, train or expect"
        if self.is_statement:
            cure = "indent it, so that it belongs to the declaration above"
        headline = f"`{self.span.text}` begins no declaration"
        return self.say(headline, "this line stands at the left margin", Help(cure))


class UnfinishedLine(SyntaxProblem, code="E0129"):
    """A line ends with an operator, which needs something on its right."""

    following: str

    def report(self) -> Report:
        operator = self.span.text
        cure = None
        if self.following:
            edits = certainty.moved_down(self.span)
            code = None if edits else f"{operator} {self.following}"
            cure = safe_fix("begin the next line with the operator", *edits, code=code)
        return self.say(f"this line ends with `{operator}`", "something must follow it", cure)


class MissingBrackets(SyntaxProblem, code="E0131"):
    """A block or an optimizer has one pair of brackets instead of two."""

    def report(self) -> Report:
        if self.span.source.line(self.span.line).startswith("optimizer"):
            return self.say(
                "an optimizer has two pairs of brackets",
                "the first holds arguments, the second the parameter and its gradient",
                Help("its form is", "optimizer name(lr: real)(p: [...s], g: [...s]) -> [...s]:"),
            )
        text, code = "write both, even if the first is empty", "block Net()(x: [n, d]) -> [n, d]:"
        brackets = certainty.only_brackets(self.span)
        cure = Help(text, code) if brackets is None else replacing(text, brackets, "()")
        return self.say(
            "a block has two pairs of brackets",
            "the first holds configuration, the second tensors",
            cure,
        )


class ValueWithoutUse(SyntaxProblem, code="E0132"):
    """A value stands alone on a line, where it does nothing."""

    name: str

    def report(self) -> Report:
        start = Span(self.span.source, self.span.start, self.span.start)
        cure = Help("give it a name, or return it", rewritten(start, f"{self.name} = "))
        if certainty.ends_block(self.span):
            cure = Help("the last line returns what it computes", rewritten(start, "return "))
        return self.say("this value goes nowhere", "the line only computes it", cure)


class LabelWithoutPipe(SyntaxProblem, code="E0133"):
    """A labelled layer stands at the beginning of a line, with nothing piped into it."""

    annotation: Span | None = None
    """The colon and the type that stand before `=`."""

    def report(self) -> Report:
        if self.annotation is not None:
            cure = Help(
                "leave it out: shapes follow, and are proved", rewritten(self.annotation, "")
            )
            name = self.span.text
            return self.say(
                f"`{name}` is declared with a type", "shapes are not written here", cure
            )
        location = Span(self.span.source, self.span.start, self.span.start)
        cure = Help("pipe something into it", rewritten(location, "x = x |> "))
        return self.say("a label stands after a pipe", "nothing is piped into this", cure)


class LoopWithoutRange(SyntaxProblem, code="E0135"):
    """A loop runs over a range of whole numbers, from the first up to but without the last."""

    iterations: Iterations | None = None
    """The loop over a range that is meant, if what the loop runs over is recognised."""

    def report(self) -> Report:
        written = certainty.range_of(self.span.text)
        if self.iterations is not None and not written:
            gone = " and ".join(f"`{code}` for `{name}`" for name, code in self.iterations.names)
            text = (
                f"count the iterations, and write {gone} in them"
                if gone
                else "count the iterations"
            )
            code = "\n".join(
                each for each in (self.iterations.before, self.iterations.header) if each
            )
            return self.say("a loop runs over a range", "this is no range", Help(text, code))
        text = "write a range" if written else "write a range, such as"
        cure = replacing(text, self.span, written or "0..4", kind_if(certain=bool(written)))
        return self.say("a loop runs over a range", "this is no range", cure)


class ColonAfterDef(SyntaxProblem, code="E0136"):
    """A `def` has a body like that of a block."""

    def report(self) -> Report:
        text, body = "write one expression after `=`", certainty.returned_formula(self.span)
        cure = (
            Help(text, rewritten(self.span, " = ..."))
            if body is None
            else replacing(text, body, " = ")
        )
        return self.say("a `def` has no body", "expected `=` and an expression", cure)
