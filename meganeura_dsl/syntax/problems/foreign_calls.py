"""Finds calls of PyTorch and NumPy in a text, for their cures in this language."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.other_name_words import ACCURACY, WORDS
from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.block_text import axes_of, block_before, bracketed
from meganeura_dsl.syntax.problems.call_translation import (
    MODULES,
    MOVES,
    SIMPLE,
    SPLITS,
    ForeignCall,
)
from meganeura_dsl.syntax.problems.foreign_layers import layer_cure

_CALLED = re.compile(r"(?<![\w.)\]])[A-Za-z_][\w.]*\.[A-Za-z_]\w*\(")
"""A call behind a dot, up to its bracket."""
_NESTED = re.compile(r"rearrange\(rearrange\((.+), (\[.*\]) -> (\[.*\])\), \3 -> (\[.*\])\)")
"""A rearrangement of a rearrangement, which is one."""
_ACCURACIES = tuple(WORDS[ACCURACY].split())


def call_at(
    text: str, start: int, opening: int, before: str, operand: str = ""
) -> tuple[Help, int] | None:
    """Returns what calls behind dots are, and where they end; None where a bracket is not closed.

    The first of them begins at `start`, and its bracket is at `opening`.
    """
    value, _, function = text[start:opening].rstrip().rpartition(".")
    value = "" if value.split(".")[0] in MODULES else value
    while True:
        called = bracketed(text, opening)
        if called is None:
            return None
        arguments, end = called
        applied = bracketed(text, end) if text[end : end + 1] == "(" else None
        further = re.compile(r"\.([A-Za-z_]\w*)\(").match(
            text, end if applied is None else applied[1]
        )
        help_ = ForeignCall(
            value=value,
            function=function,
            arguments=tuple(translated(each, before) for each in arguments),
            applied=() if applied is None else applied[0],
            before=before,
            operand=operand if further is None else "",
        ).help()
        if help_.code is not None:
            help_ = Help(help_.text, _NESTED.sub(r"rearrange(\1, \2 -> \4)", help_.code))
        end = end if applied is None else applied[1]
        is_code = help_.code and "#" not in help_.code and "\n" not in help_.code
        if further is None or not is_code or help_.code is None:
            return help_, end
        value, function, opening = help_.code, further[1], further.end() - 1
        value = value if SIMPLE.fullmatch(value) or value.startswith("rearrange(") else f"({value})"


def layer_call(value: str, function: str, called: Sequence[str], around: str) -> Help | None:
    """Returns the pipe that a call of a layer inside of a layer is: `x |> net.encoder`.

    `around` is the text that may label the layer, or declare the model, that `value` begins with.
    None where nothing does, and where the call has no tensor.
    """
    layer = re.escape(value.partition(".")[0].partition("[")[0])
    labelled = rf"(?:\|>|^[ ]+layer)\s+{layer}(?:[\[{{][^:\n]*)?:|^model {layer}\b"
    if not called or re.match(r"\w+=", called[0]):
        return None
    if re.search(labelled, around, re.MULTILINE) is None:
        return None
    first, *others = called
    first = first if SIMPLE.fullmatch(first) or first.endswith(")") else f"({first})"
    options = f"({', '.join(others)})" if others else ""
    return Help(
        "a layer of a layer is applied behind a pipe", f"{first} |> {value}.{function}{options}"
    )


def translated(written: str, before: str) -> str:
    """A text in which calls behind dots are in this language, as far as they have code."""
    at = 0
    while (found := _CALLED.search(written, at)) is not None:
        called = call_at(written, found.start(), found.end() - 1, before)
        code = None if called is None else called[0].code
        if called is None or not code or "#" in code or "\n" in code:
            at = found.end()
            continue
        written = written[: found.start()] + code + written[called[1] :]
        at = found.start() + len(code)
    return written


def statement_cure(text: str, start: int, opening: int, before: str) -> Help | None:
    """Returns the cure for a line that is one method call, such as `x.relu_()`; None if unknown.

    The call begins at `start`, and its bracket is at `opening`. Elsewhere it changes the value.
    """
    value, _, function = text[start:opening].rpartition(".")
    known, called = other_names(), bracketed(text, opening)
    if called is None:
        return None
    if function == "step" and not called[0]:
        return known["zero_grad"].help()
    if function.endswith("_") and function != "requires_grad_":
        given = ", ".join([value, *called[0]])
        words = "no value is changed: bind the name to what comes of it"
        return Help(words, f"{value} = {function[:-1]}({given})")
    called = call_at(text, start, opening, before) if function in known else None
    if called is None:
        return None
    code = called[0].code
    is_line = code is not None and "#" not in code and "\n" not in code
    return Help(called[0].text, f"{value} = {code}") if is_line else called[0]


def function_cure(span: Span) -> Help | None:
    """Returns the cure for a function of another system, called or piped into; None if unknown."""
    text = span.source.text
    called = bracketed(text, span.end) if text[span.end : span.end + 1] == "(" else None
    if called is None:
        return None
    before = text[: span.start]
    applied = bracketed(text, called[1]) if text[called[1] : called[1] + 1] == "(" else None
    layer = layer_cure(span.text, called[0], applied[0] if applied else (), before)
    if layer is not None and layer.code is not None:
        piped = re.search(r"\|>\s*(?P<label>[\w.\[\]{}]+:\s*)?$", before)
        code = layer.code if piped is None else layer.code.partition("|> ")[2]
        if piped is not None and piped["label"]:
            code = f"{piped['label'].strip()} {code.partition(': ')[2]}"
        return Help(layer.text, code)
    if span.text in _ACCURACIES and not span.text.startswith("binary"):
        return _accuracy(called[0], before)
    if span.text.endswith("_like") and not before.rstrip().endswith("|>"):
        return ForeignCall("", span.text, called[0], before=before).of_shape()
    if span.text not in (*MOVES, *SPLITS, "einsum"):
        call = ForeignCall("", span.text, called[0], before=before)
        is_piped = before.rstrip().endswith("|>")
        return None if is_piped else call.of_triangle() or call.of_axes() or call.of_shape()
    piped = re.search(r"(?:^|[=(]|return)\s*([A-Za-z_]\w*)\s*\|>\s*$", before)
    arguments = called[0]
    if before.rstrip().endswith("|>"):
        if piped is None:
            return None
        arguments = (piped[1], *arguments)
    found = ForeignCall("", span.text, arguments, before=before).of_axes()
    if found is None or found.code is None or piped is None:
        return found
    return Help(found.text, found.code.replace(f"({piped[1]}, ", "(", 1))


def _accuracy(given: Sequence[str], before: str) -> Help | None:
    """The share of labels that are where the largest logits are, of a call with both."""
    if len(given) < 2 or not all(map(SIMPLE.fullmatch, given[:2])):
        return None
    inputs = block_before(before)
    labels = [each for each in given[:2] if re.search(rf"\b{each}: *[iu]32 *\[", inputs)]
    label = labels[0] if len(labels) == 1 else given[1]
    guess = given[0] if label == given[1] else given[1]
    axis = len(axes_of(label, before) or "n")
    largest = guess if "argmax" in guess else f"argmax({guess}, {axis})"
    text = "a metric is an expression: what is right is the mean of a comparison"
    return Help(text, f"mean({largest} == {label})")
