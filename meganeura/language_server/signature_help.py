"""Signature help: the form of what is called, with the argument that is being written."""

import re

from lsprotocol.types import ParameterInformation, SignatureHelp, SignatureInformation

from meganeura.language_server.analysis import Analysis
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.reference.library import comment_above
from meganeura_dsl.syntax import ast

_DECLARATION = re.compile(r"^(?=[a-z])", re.MULTILINE)


def open_call(text: str, offset: int) -> tuple[str, str] | None:
    """The name before the innermost bracket that is open at an offset, and the text behind it."""
    starts = [0, *(each.start() for each in _DECLARATION.finditer(text, 0, offset))]
    depth = 0
    for at in range(offset - 1, starts[-1] - 1, -1):
        if text[at] in ")]":
            depth += 1
        elif text[at] == "[" and depth == 0:
            return None
        elif text[at] in "([":
            if depth == 0:
                name = re.search(r"(\w+)\s*$", text[starts[-1] : at])
                return (name[1], text[at + 1 : offset]) if name else None
            depth -= 1
    return None


def signature_help(analysis: Analysis, text: str, offset: int) -> SignatureHelp | None:
    """The form of the call that an offset of a newer text is in; names are as last checked."""
    call = open_call(text, offset)
    if call is None:
        return None
    name, given = call
    found = analysis.module.find(name)
    if found is None:
        if name not in BUILTINS:
            return None
        form, says = BUILTINS[name].signature, BUILTINS[name].meaning
        inside = form[form.index("(") + 1 : form.rindex(")")] if "(" in form else ""
        parameters = [each.strip() for each in inside.split(",") if each.strip()]
    else:
        node = found[1]
        own = () if isinstance(node, ast.Model) else node.parameters
        parameters = [each.span.text for each in own]
        form, says = f"{name}({', '.join(parameters)})", comment_above(node.span).strip()
    information = SignatureInformation(
        form, says or None, [ParameterInformation(each) for each in parameters]
    )
    return SignatureHelp([information], 0, _active(given, parameters))


def _active(given: str, parameters: list[str]) -> int | None:
    """The number of the parameter that is being written."""
    parts, depth = [""], 0
    for each in given:
        depth += (each in "([") - (each in ")]")
        if each == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += each
    named = re.match(r"\s*(\w+)\s*=", parts[-1])
    if named is None:
        return len(parts) - 1
    names = [re.split(r"[\s:=]", each)[0] for each in parameters]
    return names.index(named[1]) if named[1] in names else None
