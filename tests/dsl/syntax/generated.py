"""Syntax trees of any form, for tests that hold for all of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from hypothesis import strategies as st

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax import ast
from tests.dsl.syntax.trees import nodes

Made = TypeVar("Made")
Strategy = st.SearchStrategy

NOWHERE = Span(Source("", ""), 0, 0)
WORDS = st.sampled_from(
    [
        "x",
        "y",
        "conv1",
        "w_1",
        "block",
        "f32",
        "has",
        "in",
        "layer",
        "param",
        "run",
        "repeat",
        "scan",
        "cache",
        "state",
        "where",
    ]
)
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "@", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
)
DTYPES = st.sampled_from(
    [None, "any", "bf16", "bool", "f16", "f32", "f64", "i32", "i64", "u8", "u32"]
)
LETTERS = st.characters(exclude_categories=["Cc", "Cf", "Cs"], exclude_characters='"')


def made(node: Callable[..., Made], *parts: Strategy[object]) -> Strategy[Made]:
    """Nodes of one kind, at no place."""
    return st.tuples(*parts).map(lambda drawn: node(NOWHERE, *drawn))


def several(item: Strategy[Made], least: int = 0) -> Strategy[tuple[Made, ...]]:
    """A few of something."""
    return st.lists(item, min_size=least, max_size=2).map(tuple)


# --- expressions ---------------------------------------------------------------------------------


def _call(
    label: Strategy[ast.Path | None], callee: Strategy[str], inner: Strategy[ast.Expression]
) -> Strategy[ast.Call]:
    shape = patterns(inner)
    value = inner | made(ast.Rearrangement, shape, shape)
    return made(ast.Call, label, callee, st.just(NOWHERE), _arguments(value), _arguments(inner))


def _arguments(
    value: Strategy[ast.Expression] | Strategy[ast.Expression | ast.Rearrangement],
) -> Strategy[tuple[ast.Argument, ...]]:
    positional = several(made(ast.Argument, st.none(), value))
    named = st.dictionaries(WORDS, value, max_size=2).map(
        lambda drawn: tuple(ast.Argument(NOWHERE, name, each) for name, each in drawn.items())
    )
    return st.tuples(positional, named).map(lambda drawn: (*drawn[0], *drawn[1]))


def patterns(inner: Strategy[ast.Expression]) -> Strategy[ast.Pattern]:
    """Shapes."""
    return made(ast.Pattern, several(inner | made(ast.Rest, WORDS)))


def paths(inner: Strategy[ast.Expression]) -> Strategy[ast.Path]:
    """Paths of parameters."""
    splices = several(made(ast.Splice, inner))
    word = st.tuples(WORDS, splices).map(lambda drawn: (drawn[0], *drawn[1]))
    item = word | st.tuples(inner)
    return made(ast.Path, several(item, 1).map(lambda drawn: tuple(chain.from_iterable(drawn))))


HERE = made(ast.Path, st.just(()))
"""The label `.`."""

DOTTED = several(WORDS, 1).map(".".join)


def layers(inner: Strategy[ast.Expression]) -> Strategy[ast.Call]:
    """Draws a step of a pipe: a block or a layer, or a layer with a number in its label."""
    labelled = _call(st.none() | paths(inner) | HERE, DOTTED, inner)
    numbered = st.builds(_numbered, _call(st.none(), DOTTED, inner), paths(inner))
    return labelled | numbered


def _numbered(call: ast.Call, path: ast.Path) -> ast.Call:
    """A call of a path, which has its words as its name."""
    words = [part for part in path.parts if isinstance(part, str)]
    if len(words) == len(path.parts):
        return call
    return replace(call, callee=".".join(words), path=path)


def _extended(inner: Strategy[ast.Expression]) -> Strategy[ast.Expression]:
    entry = inner | made(ast.Range, st.none() | inner, st.none() | inner) | made(ast.EllipsisEntry)
    return st.one_of(
        made(ast.ListOf, several(inner)),
        made(ast.Unary, st.sampled_from(["-", "not"]), inner),
        made(ast.Binary, OPERATORS, inner, inner, st.just(NOWHERE)),
        made(ast.Conditional, inner, inner, inner),
        made(ast.Attribute, inner, WORDS),
        made(ast.Subscript, inner, several(entry, 1)),
        made(ast.Spliced, made(ast.Name, WORDS) | made(ast.Attribute, inner, WORDS), inner),
        made(ast.Pipe, inner, layers(inner)),
        _call(st.none(), WORDS, inner),
    )


TEXTS = made(ast.Text, st.text(LETTERS, max_size=9))
EXPRESSIONS: Strategy[ast.Expression] = st.recursive(
    st.one_of(
        made(ast.Name, WORDS),
        made(ast.Integer, st.integers(0, 10**29)),
        made(ast.Real, st.floats(0, allow_infinity=False)),
        TEXTS,
        made(ast.Boolean, st.booleans()),
    ),
    _extended,
    max_leaves=6,
)

# --- statements ----------------------------------------------------------------------------------

NAMES = made(ast.Name, WORDS)
RANGES = made(ast.Range, st.none() | EXPRESSIONS, st.none() | EXPRESSIONS)
TYPES = made(ast.Type, DTYPES, patterns(EXPRESSIONS))
PATHS = paths(EXPRESSIONS)
KINDS = st.sampled_from(["param", "frozen param", "state", "cache"])
SETTINGS = several(
    made(ast.Setting, NAMES, st.none() | st.text(LETTERS, max_size=9), EXPRESSIONS), 1
)

ELLIPSES = made(ast.EllipsisEntry)
ENTRIES = several(EXPRESSIONS | RANGES | ELLIPSES, 1)
WORD_PATHS = WORDS.map(lambda word: ast.Path(NOWHERE, (word,)))
SLICES = st.tuples(RANGES | ELLIPSES) | st.tuples(EXPRESSIONS, EXPRESSIONS | RANGES | ELLIPSES)

ANYWHERE: Strategy[ast.Statement] = st.one_of(
    made(ast.Bind, several(NAMES, 1), EXPRESSIONS),
    made(ast.Part, made(ast.Name, st.sampled_from(["x", "y", "block"])), ENTRIES, EXPRESSIONS),
    made(ast.Declare, KINDS, PATHS, TYPES, st.none() | EXPRESSIONS),
    made(ast.Layer, _call(PATHS, DOTTED, EXPRESSIONS), st.none() | PATHS),
    made(ast.Update, PATHS, EXPRESSIONS),
    made(ast.Update, WORD_PATHS, EXPRESSIONS, SLICES),
)
IN_BLOCK = ANYWHERE | made(ast.Return, several(EXPRESSIONS, 1))
IN_TRAIN = st.one_of(
    ANYWHERE,
    made(ast.Minimize, EXPRESSIONS, several(PATHS)),
    made(ast.Project, PATHS, EXPRESSIONS),
    made(ast.Metric, NAMES, EXPRESSIONS),
    made(ast.Show, NAMES, EXPRESSIONS),
    made(ast.Run, SETTINGS),
)


def bodies(
    simple: Strategy[ast.Statement], *, in_train: bool = False
) -> Strategy[tuple[ast.Statement, ...]]:
    """Statements, some of which have their own bodies."""

    def nested(inner: Strategy[ast.Statement]) -> Strategy[ast.Statement]:
        iterations, body = (NAMES, EXPRESSIONS, EXPRESSIONS), several(inner, 1)
        return st.one_of(
            made(ast.If, EXPRESSIONS, several(inner, 1), several(inner)),
            made(ast.For, *iterations, body),
            made(ast.Scan, *iterations, st.none() | EXPRESSIONS, body),
            *((made(ast.Repeat, *iterations, st.none(), body),) if in_train else ()),
        )

    return several(st.recursive(simple, nested, max_leaves=4), 1)


# --- declarations --------------------------------------------------------------------------------


KINDS_OF_CONFIG: Strategy[ast.ConfigKind | None] = st.one_of(
    st.none(),
    made(ast.NamedKind, WORDS.filter(lambda word: word != "block"), st.none() | EXPRESSIONS),
    made(ast.TextKind, several(TEXTS, 1)),
)


@st.composite
def _results(draw: st.DrawFn) -> tuple[ast.Result, ...]:
    """One result or more; all of them have names, or none has."""
    types, is_named = draw(several(TYPES, 1)), draw(st.booleans())
    return tuple(
        ast.Result(NOWHERE, each.dtype, each.shape, f"result_{at}" if is_named else None)
        for at, each in enumerate(types)
    )


@st.composite
def _headers(draw: st.DrawFn) -> ast.Block:
    names = draw(st.lists(WORDS, unique=True, max_size=3))
    middle = draw(st.integers(0, len(names)))
    kinds = [draw(KINDS_OF_CONFIG) for _ in names[:middle]]
    defaults = [draw(st.none() | EXPRESSIONS) for _ in names[:middle]]
    types = [draw(TYPES) for _ in names[middle:]]
    return ast.Block(
        NOWHERE,
        ast.Name(NOWHERE, ""),
        tuple(map(_parameter, names[:middle], kinds, defaults)),
        _inputs(names[middle:], types),
        draw(_results()),
        (),
        (),
    )


BLOCK_KINDS = made(ast.BlockKind, st.none() | _headers())


@st.composite
def _blocks(draw: st.DrawFn) -> ast.Block:
    names = draw(st.lists(WORDS, unique=True, max_size=5))
    middle = draw(st.integers(0, len(names)))
    defaults = [draw(st.none() | EXPRESSIONS) for _ in names[:middle]]
    kinds = [draw(KINDS_OF_CONFIG | BLOCK_KINDS) for _ in names[:middle]]
    types = [draw(TYPES) for _ in names[middle:]]
    return ast.Block(
        NOWHERE,
        draw(NAMES),
        tuple(map(_parameter, names[:middle], kinds, defaults)),
        _inputs(names[middle:], types),
        draw(st.none() | _results()),
        draw(several(EXPRESSIONS)),
        draw(bodies(IN_BLOCK)),
    )


def _parameter(
    name: str, kind: ast.ConfigKind | None, default: ast.Expression | None
) -> ast.Parameter:
    """A parameter; the header of its kind bears its name."""
    if isinstance(kind, ast.BlockKind) and kind.header is not None:
        kind = replace(kind, header=replace(kind.header, name=ast.Name(NOWHERE, name)))
    return ast.Parameter(NOWHERE, name, kind, default)


def _inputs(names: Iterable[str], types: Sequence[ast.Type]) -> tuple[ast.Input, ...]:
    """Inputs of these names, but for those that a type mentions: no size is an input."""
    found = [node for each in types for node in nodes(each)]
    sizes = {each.text for each in found if isinstance(each, ast.Name)}
    rests = {each.name for each in found if isinstance(each, ast.Rest)}
    named = zip(names, types, strict=True)
    return tuple(
        ast.Input(NOWHERE, name, type_) for name, type_ in named if name not in sizes | rests
    )


INPUTS = st.dictionaries(WORDS, TYPES, max_size=3).map(
    lambda drawn: _inputs(drawn, tuple(drawn.values()))
)
PARAMETERS = several(
    st.builds(_parameter, WORDS, KINDS_OF_CONFIG | BLOCK_KINDS, st.none() | EXPRESSIONS)
)
APPLIED = _call(st.none(), DOTTED, EXPRESSIONS)
COUNTS = several(made(ast.Count, st.integers(0, 10**9), WORDS), 1)

DECLARATIONS: Strategy[ast.Declaration] = st.one_of(
    made(ast.Import, several(WORDS, 1), several(NAMES, 1)),
    made(ast.Def, NAMES, PARAMETERS, EXPRESSIONS),
    _blocks(),
    made(ast.Model, NAMES, _call(st.none() | PATHS | HERE, DOTTED, EXPRESSIONS)),
    made(ast.Train, NAMES, INPUTS, several(EXPRESSIONS), bodies(IN_TRAIN, in_train=True)),
    made(ast.ExpectHas, APPLIED, COUNTS),
    made(ast.ExpectHolds, APPLIED, several(made(ast.Held, PATHS, TYPES), 1)),
    made(ast.ExpectMaps, APPLIED, several(TYPES, 1), _results(), several(EXPRESSIONS)),
)


def modules() -> Strategy[ast.Module]:
    """Modules of a few declarations."""
    return several(DECLARATIONS, 1).map(lambda drawn: ast.Module(NOWHERE.source, drawn))
