"""The Pygments lexer of `.mgn`: colours in documents, notebooks and terminals."""

from pygments.lexer import (
    RegexLexer,
    bygroups,  # pyright: ignore[reportUnknownVariableType]  its arguments have no type
    words,
)
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS

_TYPES = ("any", "bool", "bf16", "f16", "f32", "f64", "i32", "i64", "u8", "u32")
_CONSTANTS = ("true", "false")
_OPERATORS = ("and", "or", "not")
_WORDS = sorted({each for each in KEYWORDS if each.isidentifier()} - {*_TYPES, *_CONSTANTS})


class MgnLexer(RegexLexer):
    """Splits a program into the tokens that styles colour."""

    name = "Meganeura"
    aliases = ("meganeura", "mgn")
    filenames = ("*.mgn",)
    url = ""

    tokens = {  # noqa: RUF012  the name and its form are those of Pygments
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r"\s+", Whitespace),
            (r'"[^"\n]*"', String.Double),
            (
                r"^(def|block|model|train)(\s+)(\w+)",
                bygroups(Keyword.Declaration, Whitespace, Name.Class),
            ),
            (r"(\|>)(\s*)([\w.\[\]{}]+)(\s*)(:)",
             bygroups(Operator, Whitespace, Name.Label, Whitespace, Punctuation)),
            (r"\d[\d_]*\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+", Number.Float),
            (r"\d[\d_]*", Number.Integer),
            (words(_CONSTANTS, r"\b", r"\b"), Keyword.Constant),
            (words(_TYPES, r"\b", r"\b(?=\s*\[)"), Keyword.Type),
            (words(_OPERATORS, r"\b", r"\b"), Operator.Word),
            (words(_WORDS, r"\b", r"\b(?!\s*=[^=])"), Keyword),
            (r"(\w+)(?=\s*\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"\|>|->|\.\.\.?|\*\*|//|[=!<>]=|[-+*/%@<>=]", Operator),
            (r"[()\[\]{},:.]", Punctuation),
        ]
    }  # fmt: skip
