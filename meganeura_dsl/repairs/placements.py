"""The edits that put the code of a help into the program."""

import re
from collections.abc import Iterator, Sequence

from meganeura_dsl.diagnostics.report import Edit
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.repairs.small_edits import Edits
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import bracketed
from meganeura_dsl.syntax.walk import walk

_CALL = re.compile(r"(?:(?P<label>[\w.\[\]]+): )?(?P<callee>\w+)\(")
_STATEMENT = re.compile(r"(?:param |state |cache )?[\w.]+(?: =|:)(?= )")


def placements(code: str, label: Span, statements: Sequence[ast.Node]) -> Iterator[Edits]:
    """Each edit that may be meant by the code of a help, at a label or in statements near it.

    It takes the place of what is labelled, of a call or a statement that begins as it does, of a
    pattern, or of the value that it is a function of, in one place or in all of a statement. A
    stage, `|> mean(1)`, comes last.
    """
    nodes = [node for each in statements for node in walk(each)]
    if code.startswith("|> "):
        yield from (_end(each, f" {code}") for each in nodes if isinstance(each, ast.Return))
        return
    yield (Edit(label, code),)
    replaced = [node.span for node in nodes if _is_replaced(node, code)]
    for span in replaced:
        yield (Edit(span, code),)
    for statement in statements:
        inside = [span for span in replaced if statement.span.contains(span)]
        if len({span.text for span in inside}) == 1 < len(inside):
            yield tuple(Edit(span, code) for span in inside)


def is_addition(code: str) -> bool:
    """True if the code of a help adds an operation, and leaves what is written as it is."""
    return code.startswith(("|> ", "expand(", "rearrange(", "f32(", "i32("))


def _end(statement: ast.Node, text: str) -> Edits:
    end = statement.span.end
    return (Edit(Span(statement.span.source, end, end), text),)


def _is_replaced(node: ast.Node, code: str) -> bool:
    call = _CALL.match(code)
    match node:
        case ast.Rearrangement():
            return code.startswith("[") and "] -> [" in code
        case ast.Bind() | ast.Declare():
            head = _STATEMENT.match(code)
            return head is not None and node.span.text.startswith(head[0])
        case ast.Binary(operator=operator):
            is_argument = call is not None and code[call.end() :].startswith(f"{node.span.text}, ")
            return (
                is_argument
                or code.startswith(f"{node.left.span.text} {operator} ")
                or code.endswith(f" {operator} {node.right.span.text}")
            )
        case ast.Call(callee=callee) if call is not None and callee == call["callee"]:
            written = "" if node.label is None else node.label.span.text
            whole = bracketed(code, call.end() - 1)
            is_operand = whole is not None and re.match(r" [-+*/@]", code[whole[1] :]) is not None
            return written == (call["label"] or "") and not is_operand
        case _:
            return call is not None and code[call.end() :].startswith(f"{node.span.text}, ")
