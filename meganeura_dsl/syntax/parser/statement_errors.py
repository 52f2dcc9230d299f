"""Mistakes in statements of which one word says what they are: loops, and what `over` moves."""

import re

from meganeura_dsl.diagnostics.problem import Help, Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.parser.unexpected_token import Failure
from meganeura_dsl.syntax.problems import line_problems, token_problems
from meganeura_dsl.syntax.problems.block_text import bracketed
from meganeura_dsl.syntax.problems.loop_words import iterations_of

_HEADER = re.compile(
    r"(?:for|scan|repeat)[ ]+(?P<names>[\w, ()]+?)[ ]+in[ ]+"
    r"(?P<over>[^\n#]+?)[ ]*:[ ]*(?:#[^\n]*)?$",
    re.MULTILINE,
)


def loop_without_range(failure: Failure) -> Problem | None:
    """A loop over what is no range, or with several names."""
    head, is_end = failure.head, failure.token.kind == "COLON" and "RANGE" in failure.accepts
    is_target = failure.accepts_only("IN") and failure.token.kind in ("COMMA", "LPAR")
    is_target |= failure.accepts_only("NAME") and failure.token.kind == "LPAR"
    if head.text not in ("for", "scan", "repeat") or not (is_end or is_target):
        return None
    text = failure.source.text
    found = _HEADER.match(text, head.start)
    if found is None:
        if not is_end:
            return None
        return line_problems.LoopWithoutRange(
            Span(failure.source, failure.line[3].start, failure.previous.end)
        )
    before, after = (
        re.split(r"^(?=\S)", part, flags=re.MULTILINE)
        for part in (text[: head.start], text[head.start :])
    )
    iterations = iterations_of(head.text, found["names"], found["over"], before[-1] + after[0])
    if iterations is None and not is_end:
        return None
    return line_problems.LoopWithoutRange(Span(failure.source, *found.span("over")), iterations)


def shown_alone(failure: Failure) -> Problem | None:
    """A call of `show` on a line by itself, as of `print`."""
    head, token = failure.head, failure.token
    if head.text != "show" or failure.previous is not head or token.kind != "LPAR":
        return None
    called = bracketed(failure.source.text, token.start)
    first = called[0][0] if called is not None and called[0] else ""
    name = first if re.fullmatch(r"[A-Za-z_]\w*", first) else "y"
    return line_problems.ValueWithoutUse(failure.span(head), name)


def called_behind_over(failure: Failure) -> Problem | None:
    """A call behind `over`, which takes models and parts of them: `over net.parameters()`."""
    line, text = failure.line, failure.source.text
    at = next((at for at, token in enumerate(line) if token.text == "over"), None)
    if failure.token.kind != "LPAR" or failure.head.text != "minimize" or at is None:
        return None
    written = text[line[at].end :].split("\n", 1)[0].partition("#")[0]
    methods = re.findall(r"([A-Za-z_][\w.]*)\.[A-Za-z_]\w*\(\)", written)
    paths = methods or re.findall(r"([A-Za-z_][\w.]*)(?![\w.]*\()", written)
    if not paths and failure.following.kind == "RPAR":
        paths = [failure.previous.text]
    if not paths or at + 1 >= len(line):
        return None
    labels = dict(re.findall(r"^model (\w+) *= *(\w+):", text, re.MULTILINE))
    paths = [_below_label(each, labels) for each in paths]
    span = Span(failure.source, line[at + 1].start, failure.previous.end)
    moved = " ".join(text[failure.head.start : line[at].end].split())
    advice, code = "what is moved is a model, or a part of one", f"{moved} {', '.join(paths)}"
    if "." in span.text:
        return token_problems.MethodCall(span, Help(advice, code))
    expected = ("`,`", "`.`", "the end of the line")
    return token_problems.UnexpectedToken(
        failure.span(failure.token), expected, f"{advice}: `{code}`"
    )


def _below_label(path: str, labels: dict[str, str]) -> str:
    """A path in which a part of a model is below the label of the model."""
    model, dot, part = path.partition(".")
    return f"{labels.get(model, model)}.{part}" if dot else path
