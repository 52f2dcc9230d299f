"""Words of other languages that begin a line, and what is written in their place."""

import re

from meganeura_dsl.diagnostics.problem import Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.block_text import block_before, split_top
from meganeura_dsl.syntax.problems.side_effects import statement_problem
from meganeura_dsl.syntax.problems.token_problems import ForeignSpelling

ADVICE = {
    "assert": "state it in the signature, after `where`",
    "class": "a layer is a `block`",
    "const": "a name is given by `name = value` alone",
    "del": "nothing is freed by hand: leave the line out",
    "elif": "write `else if`",
    "fn": "a formula is a `def`, a layer a `block`",
    "func": "a formula is a `def`, a layer a `block`",
    "function": "a formula is a `def`, a layer a `block`",
    "global": "a name of another block is given as an input: leave the line out",
    "import": "write `from module import name`",
    "lambda": "a formula has a name: write a `def`, or what it computes where it is used",
    "let": "a name is given by `name = value` alone",
    "nonlocal": "a name that iterations of a `scan` bind is carried: leave the line out",
    "pass": "leave it out: every body does something",
    "raise": "what may not happen is refused by `where`, for all sizes, before anything runs",
    "try": "nothing is caught: what may not happen is refused by `where`, before anything runs",
    "var": "a name is given by `name = value` alone",
    "print": '`h = h |> show("h")` leaves h as it is, and runs and trainings show it',
    "with": "nothing is switched for some lines: `stop_gradient(x)` keeps gradients out, and\n"
    "precision and device are settings of `run:`",
    "yield": "a block returns once: all steps are a `scan t in 0..s:`, one after another",
    "while": "a loop has a largest number of iterations, after which it ends, whatever data says",
}


def of_word(span: Span) -> Problem:
    """The problem of a word of `ADVICE` that begins a line."""
    block = block_before(span.source.text[: span.start])
    called = statement_problem(span) if block.startswith("train") else None
    return called or ForeignSpelling(span, ADVICE[span.text], _line_of(span))


def _line_of(span: Span) -> str:
    """The line that a `print` or a `while` becomes; empty where there is none."""
    line, _, later = span.source.text[span.end :].partition("\n")
    if span.text == "while":
        return f"scan t in 0..8 while {line.partition('#')[0].strip()}"
    value = re.fullmatch(r"\(([^\"',]+)\)\s*", line)
    indent = span.source.text[: span.start].rpartition("\n")[2]
    returned = re.search(r"^( *)return (.+)$", later, re.MULTILINE)
    is_last = returned and indent == returned[1] and "block" not in later[: returned.start()]
    if value is None or returned is None or ".shape" in value[1] or not is_last:
        return ""
    return f"return {returned[2]}, {value[1]}"


def of_self(span: Span) -> Problem | None:
    """The problem of a line that sets an attribute, such as `self.fc = nn.Linear(3, 4)`.

    `span` is what stands left of the sign. None for other lines.
    """
    line = span.source.text[span.end :].partition("\n")[0]
    found = re.match(r"\s*=(?!=)\s*(?:nn\.|torch\.nn\.)?(?:(\w+)\((.*)\)\s*$)?", line)
    if found is None:
        return None
    word, name = Span(span.source, span.start, span.start + 4), span.text.partition(".")[2]
    text = "a layer is made where it is applied, and its label names its weights"
    layer = _layer(found[1] or "", found[2] or "")
    return ForeignSpelling(word, text, f"x |> {name}: {layer}" if layer else "")


def _layer(called: str, arguments: str) -> str:
    """A layer of PyTorch as it is written here; empty if it is none of the most common ones."""
    given = split_top(arguments.replace("padding=", "pad=").replace("kernel_size=", "k="))
    match called:
        case "Linear" | "Conv1d" | "Conv2d" | "Conv3d" if len(given) > 1 and "=" not in given[1]:
            return f"{called.lower()}({', '.join(given[1:])})"
        case "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d":
            return "batch_norm"
        case "LayerNorm":
            return "layer_norm"
        case "Embedding" if len(given) == 2:
            return f"embedding({', '.join(given)})"
        case _:
            return f"{called}({arguments})" if called.islower() else ""
