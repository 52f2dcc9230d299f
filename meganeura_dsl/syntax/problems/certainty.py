"""Tests that the cure of a syntax problem is certain, by the text around its place.

Each function looks at the text alone, as the tree does not exist, and prefers to find nothing.
"""

import re
from functools import lru_cache

from meganeura_dsl.diagnostics.problem import Applicability, Edit
from meganeura_dsl.diagnostics.source import Source, Span

_QUOTES = "'\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_NAME = r"[A-Za-z_]\w*"
_ATOM = rf'(?:-?\d[\w.]*|"[^"]*"|{_NAME})'
CLOSING = {"(": ")", "[": "]", "{": "}"}
_FAR = 10_000
"""Characters examined before or behind an offset, so that a hostile text costs little."""

_WITHOUT_CODE = re.compile(r'"[^"\n]*"|#[^\n]*')
_MOVABLE = re.compile(r"\|>|->|\*\*|//|[=!<>]=|[-+*/%@<>]|and|or")
_LAST_ITEM = re.compile(rf"(?:{_NAME}\s*=\s*)?{_ATOM}")
_STATEMENT = re.compile(
    rf"(?:return|if|for|else|param|frozen|state|layer|update|minimize|project|repeat|metric|run)\b|{_NAME}(?:\s*,\s*{_NAME})*\s*=(?!=)"
)

_DEFINITION_BODY = re.compile(
    r"[ \t]*:(?:[ \t]*\r?\n[ \t]+return)?[ \t]+"
    r"(?P<formula>[^\s#][^\n#]*)(?:#[^\n]*)?(?:\n(?=[^ \t]|\s*\Z)|\Z)"
)

_SEVERAL = re.compile(r"(?:^|[^\w)\]\s])\s*\([^()]*,")
"""A bracket around several values, which is no call."""

# --- lines ---------------------------------------------------------------------------------------


def _code(text: str) -> str:
    """A line without its comment and the spaces at its end."""
    return re.sub(r'("[^"\n]*")|#.*', lambda match: match[1] or "", text).rstrip()


def _line(span: Span) -> str:
    return span.source.line(span.line)


def _before(span: Span) -> str:
    """Returns the text before a span on its line."""
    return _line(span)[: span.column - 1]


def _after(span: Span) -> str:
    """Returns the text after a span on its last line, without a comment."""
    line, column = span.source.position(span.end)
    return _code(span.source.line(line)[column - 1 :])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _next_line(span: Span) -> str:
    """The next line with code below a span; empty at the end of the file."""
    end = span.source.text.find("\n", span.end)
    below = "" if end < 0 else span.source.text[end + 1 : end + _FAR]
    return next((line for line in below.split("\n") if _code(line)), "")


def _is_last_of_its_body(span: Span) -> bool:
    """True if the next line is not indented deeper than the line of a span."""
    return _indentation(_next_line(span)) <= _indentation(_line(span))


def is_balanced(text: str) -> bool:
    """True if all brackets of a text are closed in it."""
    open_: list[str] = []
    for char in _WITHOUT_CODE.sub("", text):
        if char in CLOSING:
            open_.append(CLOSING[char])
        elif char in ")]" and (not open_ or open_.pop() != char):
            return False
    return not open_


def _outermost(text: str) -> str:
    """A text with its bracket groups taken out; a bracket that closes nothing stays."""
    kept: list[str] = []
    starts: list[int] = []
    for char in _WITHOUT_CODE.sub("0", text):
        kept.append(char)
        if char in CLOSING:
            starts.append(len(kept) - 1)
        elif char in ")]" and starts:
            del kept[starts.pop() :]
    return "".join(kept)


def _declaration_before(span: Span) -> str:
    """The text of a declaration up to a span."""
    text = span.source.text[max(0, span.start - _FAR) : span.start]
    starts = list(re.finditer(r"(?m)^(?=[A-Za-z_])", text))
    return text[starts[-1].start() if starts else 0 :]


def ends_line(span: Span) -> bool:
    """True if no code follows a span on its line."""
    return not _after(span)


def indenting_tabs(span: Span) -> tuple[Span, ...]:
    """The indentation of each line of a declaration, if it is made of tabs alone."""
    source, text = span.source, span.source.text
    start = span.start - len(_declaration_before(span))
    end = re.compile(r"(?m)^(?=[^\s#])").search(text, span.end)
    found: list[Span] = []
    for line in re.compile(r"(?m)^[ \t]+(?=[^\s#])").finditer(
        text, start, len(text) if end is None else end.start()
    ):
        if " " in line[0]:
            return ()
        found.append(Span(source, *line.span()))
    return tuple(found)


def opens_body(span: Span) -> bool:
    """True if nothing follows on the line, and the next line is indented as its body."""
    start = Span(span.source, span.start, span.start)
    return ends_line(start) and not _is_last_of_its_body(start)


def gap_before(span: Span) -> Span:
    """The spaces before a span."""
    spaces = len(_before(span)) - len(_before(span).rstrip())
    return Span(span.source, span.start - spaces, span.start)


def body_indentation(span: Span) -> str | None:
    """The line break and the spaces that a body needs which stands behind its `:`, all of it."""
    if not span.text or not _before(span).rstrip().endswith(":") or not _is_last_of_its_body(span):
        return None
    newline = "\r\n" if "\r\n" in span.source.text else "\n"
    return newline + " " * (_indentation(_line(span)) + 2)


def moved_down(span: Span) -> tuple[Edit, ...]:
    """Edits that move an operator from the end of its line to the beginning of the next."""
    if not _MOVABLE.fullmatch(span.text):
        return ()
    end = span.source.text.index("\n", span.end) + 1
    following = span.source.text[end:].split("\n", 1)[0]
    start = end + _indentation(following)
    gap = gap_before(span)
    location = Span(span.source, start, start)
    return Edit(Span(span.source, gap.start, span.end), ""), Edit(location, f"{span.text} ")


def returned_formula(span: Span) -> Span | None:
    """Returns the span from a `def`'s `:` to its one expression, there or in a `return` below."""
    found = _DEFINITION_BODY.match(span.source.text, gap_before(span).start)
    if (
        found is None
        or found["formula"].startswith("return")
        or "," in _outermost(found["formula"])
        or _SEVERAL.search(found["formula"])
    ):
        return None
    return Span(span.source, found.start(), found.start("formula"))


# --- brackets, texts and numbers -----------------------------------------------------------------


def end_of_brackets(opening: Span) -> Span | None:
    """Returns the end of a bracket that was never closed: after a line of plain arguments."""
    inside, below = _after(opening), _next_line(opening)
    last = _outermost(inside).rpartition(",")[2].strip()
    begins = not below or not below[0].isspace() or _STATEMENT.match(below.strip())
    is_ended = begins and _is_last_of_its_body(opening)
    if not is_ended or not is_balanced(inside) or not _LAST_ITEM.fullmatch(last):
        return None
    if not is_balanced(_declaration_before(opening)):
        return None
    end = opening.end + len(inside)
    return Span(opening.source, end, end)


def is_superfluous(closing: Span) -> bool:
    """True if a bracket that closes nothing stands last behind what no bracket could group."""
    before = _outermost(_before(closing))
    value = before.rpartition("=")[2].replace("|>", "").replace("return", "")
    return ends_line(closing) and not re.search(r"[-+*/%@<>()\[\]{}]|\b(and|or|not|if)\b", value)


def is_only_bracket(opening: Span, closing: Span) -> bool:
    """True if no other bracket is open between these two, nor left open or closed after them."""
    return is_balanced(_declaration_before(opening)) and is_balanced(_after(closing))


def only_brackets(colon: Span) -> Span | None:
    """Returns the start of a block's only brackets, given the `:` of the first tensor in them."""
    head = re.fullmatch(rf"block\s+{_NAME}\s*(?P<bracket>\()\s*{_NAME}\s*", _before(colon))
    if head is None:
        return None
    signature = _line(colon)[head.start("bracket") :]
    if re.match(r"\s*\(", _outermost(signature)):
        return None
    at = colon.start - colon.column + 1 + head.start("bracket")
    closed = re.match(r"\((?:[^()]|\([^()]*\))*\)\s*(?P<more>\()?", signature)
    return None if closed is None or closed["more"] else Span(colon.source, at, at)


def quotes(span: Span) -> tuple[Span, ...]:
    """The two foreign quotes of a line, around one text."""
    line = _line(span)
    columns = [column for column, char in enumerate(line) if char in _QUOTES]
    if span.text not in _QUOTES or len(columns) != 2 or '"' in line:
        return ()
    start = span.start - span.column + 1
    return tuple(Span(span.source, start + each, start + each + 1) for each in columns)


def is_whole_text(span: Span, text: str) -> bool:
    """True if a text without a closing quote is all that is left of its line: a word or a path."""
    before = _before(span)
    return (
        re.fullmatch(r'"[\w./-]+', text) is not None
        and is_balanced(before)
        and re.search(rf"[\w{_QUOTES}]$", before) is None
    )


def number(text: str) -> str | None:
    """The number that another language writes like this."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}", text):
        return str(int(text, 16))
    if re.fullmatch(r"\.\d+(?:[eE][-+]?\d+)?", text):
        return f"0{text}"
    if re.fullmatch(r"\d+\.", text):
        return f"{text}0"
    if re.fullmatch(r"\d+(?:_+\d+)*", text):
        return re.sub(r"__+", "_", text)
    return None


# --- words ---------------------------------------------------------------------------------------


NUMBERED_LAYERS = frozenset({"relu6"})
"""The layers of the library whose names end in a number."""


def is_label(source: Source, label: str) -> bool:
    """True if a path can only be a label: it has parts, or ends in a number as few layers do."""
    if "." in label or "[" in label:
        return True
    is_numbered = re.fullmatch(r"[a-z_]+\d+", label) is not None
    return is_numbered and label not in NUMBERED_LAYERS and label not in _declared(source)


@lru_cache(maxsize=1)
def _declared(source: Source) -> frozenset[str]:
    """The words by which declarations and imports name something, and some more."""
    lines: list[str] = re.findall(r"(?m)^(?:block|model|def|from)\b[^\n(]*", source.text)
    return frozenset(word for line in lines for word in re.findall(_NAME, line))


def is_in_condition(span: Span) -> bool:
    """True if a place belongs to the condition of an `if` or a `where`, on the same line."""
    return re.search(r"^\s*(?:else\s+)?if\b|\bwhere\b", _before(span)) is not None


def is_plain_chain(operator: Span, middle: str) -> bool:
    """True if two comparisons joined by `and` say what the chain said: no `not` is before them."""
    return is_balanced(middle) and re.search(r"\bnot\b", _before(operator)) is None


def of_missing_comma(gap: Span) -> Applicability:
    """Safe if only a comma can be missing: before a named argument or a tensor.

    Between two numbers it is a guess: `1 000` may be one number.
    """
    text = gap.source.text
    before, after = text[: gap.start][-40:], text[gap.end :][:200]
    if re.match(rf"{_NAME}\s*=(?!=)", after):
        return Applicability.SAFE
    if before.endswith("]") and re.match(rf"{_NAME}\s*:", after):
        return Applicability.SAFE
    is_between = re.search(r"(?<![\w.])[\d.]+$", before) and re.match(r"[\d.]+(?![\w.])", after)
    return Applicability.SUGGESTED if is_between else Applicability.NONE


def range_of(text: str) -> str | None:
    """`0..4` for `range(4)`, `1..4` for `range(1, 4)`."""
    found = re.fullmatch(r"range\(\s*([^(),]+?)\s*(?:,\s*([^(),]+?)\s*)?\)", text)
    if found is None:
        return None
    return f"0..{found[1]}" if found[2] is None else f"{found[1]}..{found[2]}"


def translated(span: Span) -> tuple[Edit, ...]:
    """Edits that put a word or sign of another language into this one, where it has the same."""
    match span.text:
        case "elif":
            return (Edit(span, "else if"),)
        case "True" | "False":
            return (Edit(span, span.text.lower()),)
        case "let" | "var" | "const":
            word = re.compile(rf"\w+[ \t]+(?={_NAME}[ \t]*=(?!=))").match(
                span.source.text, span.start
            )
            return () if word is None else (Edit(Span(span.source, *word.span()), ""),)
        case text if text.endswith("="):
            return _update(span)
        case _:
            return ()


def _update(span: Span) -> tuple[Edit, ...]:
    """`x = x * (a + b)` for `x *= a + b`, where all of it stands on the line."""
    name, value = _before(span).strip(), _after(span)
    operand = value.strip()
    is_whole = is_balanced(operand) and re.search(r"[\w)\]]$", operand) is not None
    if not is_whole or not _is_last_of_its_body(span) or not re.fullmatch(_NAME, name):
        return ()
    edit = Edit(span, f"= {name} {span.text.removesuffix('=')}")
    if re.fullmatch(_ATOM, _outermost(operand)):
        return (edit,)
    start = span.end + len(value) - len(value.lstrip())
    end = start + len(operand)
    source = span.source
    return edit, Edit(Span(source, start, start), "("), Edit(Span(source, end, end), ")")


def ends_block(span: Span) -> bool:
    """True if the line of a span is the last of a block, which returns nothing."""
    lines = span.source.text.split("\n")
    depth = len(lines[span.line - 1]) - len(lines[span.line - 1].lstrip())
    above = list(reversed(lines[: span.line - 1]))
    header = next((each for each in above if each.strip() and not each[0].isspace()), "")
    at = next((at for at, each in enumerate(above) if each == header), 0)
    body = [each for each in above[:at] if each.strip()]
    below = next((each for each in lines[span.line :] if each.strip()), "")
    is_continued = below.lstrip().startswith("|>")
    if is_continued or (below and below[0].isspace()) or not header.startswith("block "):
        return False
    first = len(body[-1]) - len(body[-1].lstrip()) if body else depth
    return depth == min(first, depth) and not any(re.match(r"\s*return\b", each) for each in body)
