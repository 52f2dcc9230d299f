"""Mistakes in the results of a signature, between `->` and the colon."""

from meganeura_dsl.diagnostics.problem import Problem
from meganeura_dsl.syntax.parser.unexpected_token import Failure
from meganeura_dsl.syntax.problems import token_problems

_WRITTEN = "-> logits: [n, c], value: [n]"


def result_name(failure: Failure) -> Problem | None:
    """The name of a result without its colon, or an element type that is none."""
    token, previous = failure.token, failure.previous
    is_of_result = any(each.kind == "ARROW" for each in failure.line)
    if not is_of_result or previous.kind != "NAME" or not failure.accepts_only("COLON"):
        return None
    if token.kind == "LSQB":
        span = failure.span(previous)
        if not failure.between or token_problems.is_foreign_type(previous.text):
            return token_problems.UnknownElementType(span)
    if token.kind not in ("LSQB", "EQUAL"):
        return None
    words = "the name of a result stands before a colon"
    return token_problems.UnexpectedToken(failure.span(token), ("`:`",), words, _WRITTEN)


def type_as_name(failure: Failure) -> Problem | None:
    """An element type that is the name of a result."""
    is_name = failure.token.kind == "COLON" and failure.accepts_only("LSQB")
    if not is_name or not any(each.kind == "ARROW" for each in failure.line):
        return None
    return token_problems.KeywordAsName(failure.span(failure.previous))


def results_in_brackets(failure: Failure) -> Problem | None:
    """Brackets around the results of a block or a model."""
    is_first = failure.previous.kind == "ARROW" and failure.head.text in ("block", "expect")
    if failure.token.kind != "LPAR" or not is_first:
        return None
    words, wanted = "results stand without brackets", ("a type", "a name")
    return token_problems.UnexpectedToken(failure.span(failure.token), wanted, words, _WRITTEN)
