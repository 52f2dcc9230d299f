"""Finds the mistake behind a token that cannot follow what came before it.

A table of small rules is tried in order: each looks at the token, at those around it, and at what
could have stood in its place, and names the problem if it recognises it. What none recognises is
an unexpected token, described in people's words.
"""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from meganeura_dsl.diagnostics.problem import Help, Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.parser import result_errors, setting_errors, statement_errors
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS, RESERVED
from meganeura_dsl.syntax.parser.scanner import DEDENT, END, INDENT, LAYOUT, NEWLINE, Token
from meganeura_dsl.syntax.parser.unexpected_token import Failure
from meganeura_dsl.syntax.problems import (
    foreign_calls,
    foreign_words,
    line_problems,
    side_effects,
    text_problems,
    token_problems,
)
from meganeura_dsl.syntax.problems.block_text import block_before, bracketed, value_before
from meganeura_dsl.syntax.problems.tuples import lines_cure, tuple_cure

Rule = Callable[[Failure], Problem | None]

_DECLARATIONS = ("from", "def", "block", "optimizer", "model", "train", "expect")
_STATEMENTS = (
    "cache", "for", "frozen", "if", "layer", "metric", "minimize", "param", "project", "repeat",
    "return", "run", "scan", "show", "state", "update",
)  # fmt: skip
_OPENERS = ("block", "optimizer", "train", "if", "else", "for", "repeat", "run", "scan")
_OPERATORS = (
    "PLUS", "MINUS", "MULTIPLY", "POWER", "COMPARE", "PIPE", "ARROW", "RANGE", "EQUAL",
)  # fmt: skip
_WORD_OPERATORS = ("and", "or", "not")
_LITERALS = ("INTEGER", "REAL", "STRING")
_LABEL = re.compile(r"(?:\w+|\[[^\]\n]*\])(?:\.\w+|\[[^\]\n]*\]|\{[^}\n]*\})*")

_SPELLINGS = {
    **{kind: f"`{word}`" for word, kind in KEYWORDS.items()},
    "ARROW": "`->`", "COLON": "`:`", "COMMA": "`,`", "DOT": "`.`", "EQUAL": "`=`", "LPAR": "`(`",
    "LSQB": "`[`", "PIPE": "`|>`", "RANGE": "`..`", "REST": "`...`", "RPAR": "`)`", "RSQB": "`]`",
    "LBRACE": "`{`", "RBRACE": "`}`",
    "NAME": "a name", "INTEGER": "a whole number", END: "the end of the file",
    NEWLINE: "the end of the line", INDENT: "an indented body", DEDENT: "the end of the body",
}  # fmt: skip

_DTYPES = {"ANY", "BOOL", "BF16", "F16", "F32", "F64", "I32", "I64", "U8", "U32"}
_INFIX = {
    "PLUS",
    "MINUS",
    "MULTIPLY",
    "POWER",
    "COMPARE",
    "AND",
    "OR",
    "IF",
    "DOT",
    "LSQB",
    "LPAR",
    "LBRACE",
}
_ARITHMETIC = {"PLUS", "MINUS", "MULTIPLY", "POWER", "COMPARE"}
_OPENING = {"LPAR", "LSQB", "LBRACE"}
_CLOSING = {"RPAR", "RSQB", "RBRACE"}
_BEFORE_VALUES = {"EQUAL", "COMMA"}
"""Tokens that a value can follow, without words and brackets."""
_VALUES = {"NAME", "TRUE", "FALSE", "LPAR", "LSQB", "MINUS", "NOT", *_LITERALS}

_GROUPS = (
    ("RETURN", "a statement", {KEYWORDS[word] for word in _STATEMENTS} | {"NAME", DEDENT}),
    ("BLOCK", "a declaration", {KEYWORDS[word] for word in _DECLARATIONS}),
    ("F32", "a type", {*_DTYPES, "LSQB"}),
    ("STRING", "a value", _VALUES),
    ("PIPE", "an operator", {*_INFIX, "PIPE"}),
    ("OR", "an operator", _INFIX),
)
"""Groups of kinds of tokens: a kind that identifies the group, its name, and all of its kinds."""


def diagnose(failure: Failure) -> Problem:
    """The problem behind a failure."""
    found = (problem for rule in _RULES if (problem := rule(failure)))
    return next(found, None) or _unexpected(failure)


def _unexpected(failure: Failure) -> Problem:
    accepts = set(failure.accepts)
    expected: list[str] = []
    for member, words, members in _GROUPS:
        if member in accepts:
            expected.append(words)
            accepts -= members
    expected.extend(sorted(_SPELLINGS[kind] for kind in accepts))
    return token_problems.UnexpectedToken(failure.span(failure.token), tuple(expected))


def _nearest(word: str, words: tuple[str, ...]) -> str | None:
    return next(iter(get_close_matches(word, words, 1)), None)


# --- lines ---------------------------------------------------------------------------------------


def _indentation(failure: Failure) -> Problem | None:
    if failure.token.kind == INDENT:
        first = failure.following
        start = failure.source.text.rfind("\n", 0, first.start) + 1
        location = Span(failure.source, start, first.start)
        return line_problems.UnexpectedIndentation(location, first.text in _DECLARATIONS)
    if failure.follows_targets and failure.previous.text in _DECLARATIONS:
        location = failure.span(failure.previous)
        called = side_effects.statement_problem(location)
        return called or line_problems.UnexpectedIndentation(location, is_declaration=True)
    return None


def _outside(failure: Failure) -> Problem | None:
    is_start = failure.index == 0 and "BLOCK" in failure.accepts
    if failure.token.kind in LAYOUT or not (is_start or END in failure.accepts):
        return None
    word, location = failure.token.text, failure.span(failure.token)
    if word in foreign_words.ADVICE:
        return token_problems.ForeignSpelling(location, foreign_words.ADVICE[word])
    is_statement = word in _STATEMENTS or failure.following.kind in ("EQUAL", "COMMA")
    if not is_statement and (keyword := _nearest(word, _DECLARATIONS)):
        return token_problems.MisspeltKeyword(location, keyword)
    return line_problems.OutsideDeclaration(location, is_statement)


def _body(failure: Failure) -> Problem | None:
    if failure.accepts_only(INDENT):
        header = failure.line_before(failure.index - 1)
        location = Span(failure.source, header[-1].end, header[-1].end)
        return line_problems.MissingBody(location, header[0].text)
    if failure.accepts_only(NEWLINE) and failure.previous.kind == "COLON":
        return line_problems.MissingBody(failure.span(failure.token), failure.head.text)
    return None


def _colon(failure: Failure) -> Problem | None:
    if "COLON" not in failure.accepts or failure.head.text not in _OPENERS:
        return None
    if failure.token.kind != NEWLINE and failure.token.text not in _STATEMENTS:
        return None
    return line_problems.MissingColon(failure.gap, failure.head.text)


def _unfinished(failure: Failure) -> Problem | None:
    previous = failure.previous
    if previous.kind not in _OPERATORS and previous.text not in _WORD_OPERATORS:
        return None
    if failure.token.kind != NEWLINE and "\n" not in failure.between:
        return None
    return line_problems.UnfinishedLine(failure.span(previous), _continuation(failure))


def _continuation(failure: Failure) -> str:
    """The next line, if it is indented as if it continued this one."""
    text = failure.source.text
    indentation = text[text.rfind("\n", 0, failure.head.start) + 1 : failure.head.start]
    following = text[failure.previous.end :].split("\n", 2)[1:2]
    is_continued = following and following[0].startswith(f"{indentation} ")
    if failure.previous.kind == "EQUAL" or not is_continued:
        return ""
    return following[0].split("#")[0].strip()


def _useless(failure: Failure) -> Problem | None:
    if not failure.follows_targets or failure.token.kind in ("NAME", *_LITERALS):
        return None
    head = failure.span(failure.head)
    if failure.token.kind == "COLON":
        rest = failure.source.text[failure.token.start :].split("\n", 1)[0]
        typed = re.match(r":\s*(?:\w+\s*)?(?:\[[^\]=|]*\])?\s*(?==[^=])", rest)
        start = failure.token.start
        annotation = Span(failure.source, start, start + len(typed[0].rstrip())) if typed else None
        return line_problems.LabelWithoutPipe(head, annotation)
    if re.search(r"[^=]=[^=]", failure.source.line(head.line)):
        return None
    called = side_effects.statement_problem(head)
    if called is not None:
        return called
    return line_problems.ValueWithoutUse(head, "y" if head.text == "x" else "x")


def _definition(failure: Failure) -> Problem | None:
    if failure.token.kind == "COLON" and failure.head.text == "def":
        return line_problems.ColonAfterDef(failure.span(failure.token))
    return None


def _brackets(failure: Failure) -> Problem | None:
    if failure.head.text not in ("block", "optimizer"):
        return None
    if failure.token.kind == "LSQB" and failure.accepts_only("BLOCK", "NAME", "STRING"):
        return line_problems.MissingBrackets(failure.span(failure.previous))
    typed = _typed_colon(failure.line)
    if failure.previous.kind == "RPAR" and failure.accepts_only("LPAR"):
        return line_problems.MissingBrackets(failure.span(typed or failure.token))
    if typed and failure.token.kind == "COMMA" and "RSQB" in failure.accepts:
        return line_problems.MissingBrackets(failure.span(typed))
    return None


def _typed_colon(line: Sequence[Token]) -> Token | None:
    """The first colon behind which the type of a tensor stands: an element type and a shape."""
    for location, token in enumerate(line[:-2]):
        word, bracket = line[location + 1 : location + 3]
        is_type = KEYWORDS.get(word.text) in _DTYPES and bracket.kind == "LSQB"
        if token.kind == "COLON" and is_type:
            return token
    return None


def _behind_pipe(failure: Failure) -> Problem | None:
    """An operator behind a layer, where a pipe may go on or end."""
    if failure.token.kind not in _ARITHMETIC or "PIPE" not in failure.accepts:
        return None
    first, depth, is_piped = failure.token, 0, False
    for token in reversed(failure.line):
        depth += (token.kind in _CLOSING) - (token.kind in _OPENING)
        if depth < 0 or (not depth and (token.kind in _BEFORE_VALUES or token.text in RESERVED)):
            break
        is_piped |= token.kind == "PIPE" and not depth
        first = token
    chain = Span(failure.source, first.start, failure.previous.end)
    return (
        token_problems.OperatorBehindPipe(failure.span(failure.token), chain) if is_piped else None
    )


# --- words ---------------------------------------------------------------------------------------


def _reserved(failure: Failure) -> Problem | None:
    token, accepts = failure.token, failure.accepts
    if token.kind == "EQUAL" and failure.previous.text in RESERVED:
        return token_problems.KeywordAsName(failure.span(failure.previous))
    if token.text not in RESERVED or "NAME" not in accepts:
        return None
    wants_name = "INTEGER" not in accepts and "RETURN" not in accepts
    if wants_name or failure.following.kind == "EQUAL":
        return token_problems.KeywordAsName(failure.span(token))
    return None


def _foreign(failure: Failure) -> Problem | None:
    head, token, following = failure.head, failure.token, failure.following
    if head.text in foreign_words.ADVICE and head in (token, failure.previous):
        return foreign_words.of_word(failure.span(head))
    if head.text == "self" and token.kind == "DOT" and following.kind == "NAME":
        span = Span(failure.source, head.start, following.end)
        return foreign_words.of_self(span)
    if failure.previous.text == "lambda" and token.kind in ("NAME", "COLON"):
        return token_problems.ForeignSpelling(
            failure.span(failure.previous), foreign_words.ADVICE["lambda"]
        )
    is_update = token.kind in _OPERATORS and following.kind == "EQUAL"
    if is_update and token.end == following.start and failure.follows_targets:
        name = failure.previous.text
        location = Span(failure.source, token.start, following.end)
        return token_problems.ForeignSpelling(location, f"write `{name} = {name} {token.text} ...`")
    return None


def _method(failure: Failure) -> Problem | None:
    is_value = failure.previous.kind == "NAME" and "PLUS" in failure.accepts
    if failure.token.kind != "LPAR" or not is_value:
        return None
    line = failure.line[0].start
    text = failure.source.text
    value, dot, function = text[line : failure.previous.end].rpartition(".")
    value = value_before(value)
    if not (dot and value and re.fullmatch(r"[A-Za-z_]\w*", function)):
        return None
    start = failure.previous.end - len(f"{value}.{function}")
    span = Span(failure.source, start, failure.previous.end)
    if value == "self":
        return token_problems.MethodCall(span, Help("write", f"x |> {function}: linear(10)"))
    block = block_before(text[:start])
    joined = re.search(r"(\w+) *[-+*/] *$", text[line:start])
    operand = joined[1] if joined else ""
    call = foreign_calls.call_at(text, start, failure.token.start, block, operand)
    if call is None:
        return None
    help_, called = call[0], bracketed(text, failure.token.start)
    if called is not None and help_.code is not None and help_.code.startswith(f"{function}("):
        models = "\n".join(re.findall(r"^model .*", text, re.MULTILINE))
        inner = foreign_calls.layer_call(value, function, called[0], f"{block}\n{models}")
        help_ = inner or help_
    return token_problems.MethodCall(span, help_)


def _method_behind_pipe(failure: Failure) -> Problem | None:
    """A method behind the brackets of a layer: `x |> relu().mean(1)`."""
    is_call = failure.previous.kind == "RPAR" and failure.following.kind == "NAME"
    if failure.token.kind != "DOT" or not is_call:
        return None
    text, start = failure.source.text, failure.token.start
    called = bracketed(text, failure.following.end)
    if text[failure.following.end : failure.following.end + 1] != "(" or called is None:
        return None
    span = Span(failure.source, start, failure.following.end)
    given = ", ".join(called[0])
    step = f"|> {failure.following.text}{f'({given})' if given else ''}"
    return token_problems.MethodCall(span, Help("the pipe goes on", step))


def _misspelt(failure: Failure) -> Problem | None:
    token, previous = failure.token, failure.previous
    fitting = tuple(word for word, kind in KEYWORDS.items() if kind in failure.accepts)
    is_argument = failure.following.kind == "EQUAL" and "COMMA" in failure.accepts
    if token.kind == "NAME" and not is_argument and (keyword := _nearest(token.text, fitting)):
        return token_problems.MisspeltKeyword(failure.span(token), keyword)
    is_operand = token.kind in ("NAME", "LSQB", *_LITERALS)
    if failure.follows_targets and is_operand and (near := _nearest(previous.text, _STATEMENTS)):
        return token_problems.MisspeltKeyword(failure.span(previous), near)
    return None


def _ragged(failure: Failure) -> Problem | None:
    """`each v of batch` where no size can be ragged."""
    if failure.previous.text != "each" or failure.following.text != "of":
        return None
    advice = "`each v of batch` is the first axis of an input of a `train`; elsewhere it is `v`"
    span = Span(failure.source, failure.previous.start, failure.following.end)
    return token_problems.UnexpectedToken(span, ("a size",), advice)


def _element_type(failure: Failure) -> Problem | None:
    is_type = failure.token.kind == "NAME" and failure.following.kind == "LSQB"
    if is_type and "F32" in failure.accepts:
        return token_problems.UnknownElementType(failure.span(failure.token))
    return None


# --- signs ---------------------------------------------------------------------------------------


def _label(failure: Failure) -> Problem | None:
    if failure.token.kind != "NAME" or "COLON" not in failure.accepts:
        return None
    sign = "EQUAL" if failure.head.text == "model" else "PIPE"
    pipe = next((token for token in reversed(failure.line) if token.kind == sign), None)
    if pipe is None:
        return None
    label = failure.source.text[pipe.end : failure.previous.end].strip()
    return token_problems.LabelLostColon(failure.gap, label) if _LABEL.fullmatch(label) else None


def _assignment(failure: Failure) -> Problem | None:
    if failure.token.kind == "EQUAL" and "OR" in failure.accepts:
        return token_problems.AssignmentInExpression(failure.span(failure.token))
    return None


def _tuple(failure: Failure) -> Problem | None:
    """Values of several names, `a, b = x, y`, or in brackets, such as `mean((2, 3))`."""
    at = _open_bracket(failure)
    if failure.token.kind == "COMMA" and at is None:
        line = failure.source.line(failure.span(failure.token).line).partition("#")[0]
        lines = lines_cure(line.rstrip())
        return lines and token_problems.UnexpectedToken(
            failure.span(failure.token),
            ("an operator", "the end of the line"),
            lines.text,
            lines.code or "",
        )
    if failure.token.kind != "COMMA" or at is None or failure.line[at].kind != "LPAR":
        return None
    before = failure.line[at - 1] if at else failure.line[at]
    if before.kind not in ("LPAR", "COMMA", "EQUAL") and before.text not in ("return", "in"):
        return None
    cure = tuple_cure(failure.source.text, failure.line[at].start)
    return token_problems.UnexpectedToken(
        failure.span(failure.token), ("an operator", "`)`"), cure.text, cure.code or ""
    )


def _stride(failure: Failure) -> Problem | None:
    """A second colon in a subscript, such as `x[:, ::2]`."""
    at = _open_bracket(failure)
    if failure.token.kind != "COLON" or not at or failure.line[at].kind != "LSQB":
        return None
    since = [token.kind for token in failure.line[at:]]
    part = since[len(since) - since[::-1].index("COMMA") :] if "COMMA" in since else since
    if failure.line[at - 1].kind not in ("NAME", "RSQB", "RPAR") or "COLON" not in part:
        return None
    base, axis = failure.line[at - 1].text, since.count("COMMA")
    step = failure.following.text if failure.following.kind == "INTEGER" else "2"
    if failure.following.kind == "MINUS":
        advice = f"backwards, an axis is `reverse({base}, {axis})`"
    else:
        axes = ["n", "c", "d", "e"][:axis]
        before, after = [*axes, f"m * {step}"], [*axes, "m", step]
        advice = (
            "a part has no stride: if it divides the size, it is\n"
            f"`rearrange({base}, [{', '.join(before)}] -> [{', '.join(after)}])[..., 0]`"
        )
    return token_problems.UnexpectedToken(failure.span(failure.token), ("`,`", "`]`"), advice)


def _pipe_among_others(failure: Failure) -> Problem | None:
    """A pipe in a list, or between operators."""
    at = _open_bracket(failure)
    if failure.token.kind != "PIPE" or at is None or failure.line[at].kind != "LSQB":
        return None
    item = failure.source.text[failure.line[at].end : failure.token.start].rpartition(",")[2]
    layer = failure.following.text
    return token_problems.UnexpectedToken(
        failure.span(failure.token),
        ("an operator", "`,`", "`]`"),
        f"in a list a pipe stands in brackets: `({item.strip()} |> {layer})`",
    )


def _open_bracket(failure: Failure) -> int | None:
    """Returns the column of the innermost bracket that is still open."""
    closed = 0
    for at in range(len(failure.line) - 1, -1, -1):
        kind = failure.line[at].kind
        closed += kind in ("RPAR", "RSQB", "RBRACE")
        if kind in ("LPAR", "LSQB", "LBRACE"):
            if not closed:
                return at
            closed -= 1
    return None


def _comparison(failure: Failure) -> Problem | None:
    if failure.token.kind != "COMPARE" or "AND" not in failure.accepts:
        return None
    first = next(token for token in reversed(failure.line) if token.kind == "COMPARE")
    middle = failure.source.text[first.end : failure.previous.end].strip()
    return token_problems.ChainedComparison(failure.span(failure.token), middle)


def _number(failure: Failure) -> Problem | None:
    token, following = failure.token, failure.following
    is_fraction = following.kind == "INTEGER" and token.end == following.start
    if token.kind == "DOT" and is_fraction and "REAL" in failure.accepts:
        return text_problems.MalformedNumber(Span(failure.source, token.start, following.end))
    return None


def _comma(failure: Failure) -> Problem | None:
    begins = failure.token.kind in ("NAME", *_LITERALS)
    ended = failure.previous.kind in ("NAME", "RPAR", "RSQB", *_LITERALS)
    if begins and ended and failure.is_in_brackets and "COMMA" in failure.accepts:
        return token_problems.MissingComma(failure.gap)
    return None


_RULES: tuple[Rule, ...] = (
    _indentation,
    setting_errors.unread_setting,
    _outside,
    _body,
    _colon,
    _unfinished,
    _reserved,
    _foreign,
    statement_errors.called_behind_over,
    statement_errors.shown_alone,
    result_errors.result_name,
    result_errors.type_as_name,
    result_errors.results_in_brackets,
    _method,
    _method_behind_pipe,
    _element_type,
    _ragged,
    _label,
    _misspelt,
    _useless,
    _tuple,
    _stride,
    _pipe_among_others,
    _assignment,
    _definition,
    _brackets,
    statement_errors.loop_without_range,
    _comparison,
    _behind_pipe,
    _number,
    _comma,
)
"""Rules that recognise mistakes, the more particular before the more general."""
