"""The role of an output lasts through all that a graph is made into, and is read from no text."""

import ast
import pickle
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path

import pytest

from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import OPS, Input, Neg
from meganeura_dsl.ir.outputs import (
    ROLES,
    Gradient,
    IndexCheck,
    Judged,
    LossPart,
    MetricPart,
    Objective,
    OutputRole,
    Shown,
    Statistic,
)
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.simplify_loops import simplify_loops

ROOT = Path(__file__).parents[3]

NAMES: tuple[OutputRole, ...] = (
    IndexCheck(3, DType.I32, 10, 'net.mgn:7  gather(x, "i")'),
    Objective(0, ("a.w", "b")),
    Objective(1, ()),
    LossPart(4),
    MetricPart(5),
    Shown("digits"),
    Judged("logits"),
    Statistic("layers.0.after norm", "not finite"),
    Gradient("layer1.w"),
)


def graph_of(*names: str) -> Graph:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    return build.graph({name: build.add(Neg(), x) for name in names})


def test_each_role_is_tried() -> None:
    assert {type(name).__name__ for name in NAMES} == ROLES.keys()


def test_a_name_is_the_text_that_it_has_always_been() -> None:
    assert [*NAMES] == [
        'index 3, i32 below 10: net.mgn:7  gather(x, "i")',
        "objective 0 moves a.w b",
        "objective 1 moves ",
        "loss part 4",
        "part 5",
        "show digits",
        "judged logits",
        "value layers.0.after norm: not finite",
        "gradient.layer1.w",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_has_the_same_role(name: OutputRole) -> None:
    for copied in (pickle.loads(pickle.dumps(name)), deepcopy(name), replace(name)):  # noqa: S301
        assert type(copied) is type(name)
        assert copied == name
        for each in fields(name):
            assert getattr(copied, each.name) == getattr(name, each.name)


def test_a_role_lasts_through_texts_and_passes() -> None:
    graph = graph_of("loss", *NAMES)
    text = format_graph(graph)
    assert 'output Shown(name="digits") = %1\n' in text
    assert 'output Objective(number=0, moves=["a.w", "b"]) = %1\n' in text
    for made in (
        parse_graph(text, OPS),
        simplify_loops(graph),
        optimize(graph, mode="forward").graph,
        pickle.loads(pickle.dumps(parse_graph(text, OPS))),  # noqa: S301
    ):
        assert [(type(each), each) for each in made.outputs] == [
            (type(each), each) for each in graph.outputs
        ]


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("Moth(number=1)", "a text or a role is expected, not `Moth`"),
        ("Shown()", "`Shown` has the attributes name"),
        ("Shown(name=1)", "`name` is 1, which it cannot be"),
        ("Shown(name=n)", "`name` is the size n, and should be known"),
        ('Shown(%0, name="a")', "`Shown` has the attributes name"),
        ('IndexCheck(dtype=i32, number=1, below=2, location="")', "attributes number, dtype"),
    ],
)
def test_a_role_that_cannot_be_read_is_refused(role: str, words: str) -> None:
    text = f'%0 = Input(name="x", dtype=f32, shape=[3]) : f32[3]\noutput {role} = %0\n'
    with pytest.raises(GraphTextError, match=f"line 2: .*{re.escape(words)}"):
        parse_graph(text, OPS)


def test_a_text_with_the_letters_of_a_role_has_none() -> None:
    text = format_graph(graph_of("show digits"))
    assert text.endswith('output "show digits" = %1\n')
    assert not any(isinstance(each, OutputRole) for each in parse_graph(text, OPS).outputs)


# --- no text is made or read elsewhere -----------------------------------------------------------

PREFIXES = (
    "index ",
    "objective ",
    "loss part ",
    "part ",
    "show ",
    "judged ",
    "value ",
    "gradient.",
)
QUOTED = re.compile(rf"""["']({"|".join(map(re.escape, PREFIXES))})""", re.IGNORECASE)
SOURCES = [
    path
    for folder in ("meganeura", "meganeura_dsl", "runtime/meganeura_runtime")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
OTHERS = {
    ("meganeura/cli/app.py", "Show the version."),
    ("meganeura_dsl/elaborate/problems/shape_problems.py", "index range"),
    ("meganeura_dsl/syntax/formatter/statements.py", "show "),
    ("meganeura_dsl/syntax/problems/side_effects.py", "show picture = "),
    ("runtime/meganeura_runtime/io/data/index_problems.py", "index range"),
}
"""The strings that begin in the same way, and are something else."""


def strings(path: Path) -> Iterator[str]:
    """The texts in a source, and the beginnings of those with fields; docstrings are left out.

    A source in which no quote stands before one of the names is not parsed.
    """
    source = path.read_text()
    if not QUOTED.search(source):
        return
    tree = ast.parse(source)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    inner = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for each in node.values[1:]
    }
    left_out = prose | inner
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in left_out:
                yield text
            case _:
                pass


def test_only_one_module_knows_the_names_of_outputs_that_have_a_role() -> None:
    assert all(name.startswith(PREFIXES) for name in NAMES)
    found = {
        (str(path.relative_to(ROOT)), text)
        for path in SOURCES
        for text in strings(path)
        if text.lower().startswith(PREFIXES)
    }
    own = {(path, text) for path, text in found if path == "meganeura_dsl/ir/outputs.py"}
    assert {text for _, text in own} == {*PREFIXES}
    assert found - own == OTHERS


def test_pages_read_no_role_out_of_a_name() -> None:
    sources = sorted((ROOT / "runtime/web/src").glob("*.ts"))
    assert sources
    read = re.compile(r"/\^?(index|objective|loss part|part|show|gradient)\b|[\"`](index|show) ")
    assert not [path.name for path in sources if read.search(path.read_text())]
