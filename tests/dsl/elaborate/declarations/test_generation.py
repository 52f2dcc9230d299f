"""A model of tokens as the graph that draws the token after them, and what makes one generate."""

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.generation import TokenStep, text_input
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.pipeline import Program

HEADER = "block Net(words=7, capacity=8)(ids: i32[n, s], {inputs}) -> [n, s, words]"
BODY = "  return ids |> table: embedding(words, words)"
GENERATES = HEADER.format(inputs="position: i32[] = 0")


def program(header: str, body: str = BODY) -> Program:
    text = f"{header}:\n{body}\nmodel net = Net()\n"
    return pipeline.check(Source("net.mgn", text), lambda _: None).program


TABLE = np.random.default_rng(0).normal(size=(7, 7)).astype(np.float32)
IDS = np.array([[1, 2, 3], [4, 5, 6]], np.int32)


@pytest.mark.parametrize("tokens", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_gives_what_follows_the_last_token_of_each_row(rows: int, tokens: int) -> None:
    ids = IDS[:rows, :tokens]
    given = {"ids": ids, "position": np.int32(0), "table.weight": TABLE}
    wanted = TABLE[ids[:, -1]]
    for draws in (True, False):
        step = TokenStep(8, tokens, rows, draws=draws)
        found = pipeline.elaborate_tokens(program(GENERATES), "net", {}, step)
        assert (found.vocabulary, found.context) == (7, ())
        outputs = evaluate(found.elaboration.graph, given).outputs
        if draws:
            np.testing.assert_array_equal(outputs["token"], wanted.argmax(1)[:, None])
        else:
            np.testing.assert_array_equal(outputs["logits"], wanted)


IDS_FAULT = "takes no `ids: i32[n, s]`"
POSITION_FAULT = "takes no `position: i32[] = 0`"
CAPACITY_FAULT = "has no parameter `capacity`"
WITHOUT_CACHES = [
    (HEADER.format(inputs="at: i32[] = 0"), [POSITION_FAULT]),
    (HEADER.format(inputs="position: [] = 0"), [POSITION_FAULT]),
    (HEADER.format(inputs="position: i32[n] = 0"), [POSITION_FAULT]),
    (GENERATES.replace("capacity", "room"), [CAPACITY_FAULT]),
    (GENERATES.replace("ids", "tokens"), [IDS_FAULT]),
    ("block Net(words=7)(ids: i32[n, s]) -> [n, s, words]", [POSITION_FAULT, CAPACITY_FAULT]),
    (
        "block Net(words=7)(x: i32[n, t]) -> [n, t, words]",
        [IDS_FAULT, POSITION_FAULT, CAPACITY_FAULT],
    ),
]


@pytest.mark.parametrize(("header", "lacks"), WITHOUT_CACHES)
def test_a_model_without_caches_takes_all_tokens_and_is_told_what_it_lacks(
    header: str, lacks: list[str]
) -> None:
    named = next(name for name in ("ids", "tokens", "x") if f"{name}: i32[n, " in header)
    net = program(header, BODY.replace("ids", named))
    for step in (TokenStep(8, 3, draws=False), TokenStep(0, 3, draws=False, keeps=False)):
        found = pipeline.elaborate_tokens(net, "net", {}, step)
        assert found.without_caches is not None
        assert (found.ids, [*found.without_caches.lacks]) == (named, lacks)
        given = {named: IDS[:1], "table.weight": TABLE}
        outputs = evaluate(found.elaboration.graph, given).outputs
        np.testing.assert_array_equal(outputs["logits"], TABLE[IDS[:1, -1]])
    with pytest.raises(ProblemError, match="E0660") as refused:
        pipeline.elaborate_logits(net, "net", {}, TokenStep(8, 3))
    label = refused.value.problem.report().label
    assert label is not None
    assert label.text == f"it {', '.join(lacks)}"


def test_a_step_may_leave_the_caches_of_a_model_out() -> None:
    step = TokenStep(0, 3, draws=False, keeps=False)
    found = pipeline.elaborate_tokens(program(GENERATES), "net", {}, step)
    assert found.without_caches is None
    assert set(found.elaboration.inputs) == {"ids"}


WITHOUT = [
    (HEADER.format(inputs="position: i32[]"), [POSITION_FAULT]),
    (GENERATES.replace("ids: i32[n, s]", "ids: [n, s]"), [IDS_FAULT]),
    (GENERATES.replace("ids: i32[n, s]", "ids: i32[s]"), [IDS_FAULT]),
    (GENERATES.replace("ids: i32[n, s]", "ids: i32[2, s]"), [IDS_FAULT]),
    (GENERATES.replace("ids: i32[n, s]", "ids: i32[n, s, 1]"), [IDS_FAULT]),
    ("block Net(words=7)(x: [n, s]) -> [n, s]", [IDS_FAULT]),
    ("block Net(words=7)(a: i32[n, s], b: i32[n, s]) -> [n, s]", [IDS_FAULT]),
]


@pytest.mark.parametrize(("header", "faults"), WITHOUT)
def test_a_model_that_does_not_generate_is_told_what_it_lacks(
    header: str, faults: list[str]
) -> None:
    with pytest.raises(ProblemError) as refused:
        pipeline.elaborate_tokens(program(header), "net", {}, TokenStep(8, 1))
    report = refused.value.problem.report()
    assert report.label is not None
    assert (report.code, report.label.text) == ("E0660", f"it {', '.join(faults)}")


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ("[n, words]", f"{BODY} |> mean(1)"),
        ("f16[n, s, words]", f"  return f16({BODY.removeprefix('  return ')})"),
        ("[n, 1, words]", f"{BODY.replace('ids', 'ids[:, :1]')}"),
        ("[n, s, words], [n]", f"  x = {BODY.removeprefix('  return ')}\n  return x, x[:, 0, 0]"),
    ],
)
def test_a_model_of_something_else_gives_no_logits(result: str, body: str) -> None:
    net = program(GENERATES.replace("[n, s, words]", result), body)
    with pytest.raises(ProblemError) as refused:
        pipeline.elaborate_tokens(net, "net", {}, TokenStep(8, 2, 3))
    report = refused.value.problem.report()
    assert report.code == "E0660"
    assert "for tokens `i32[3, 2]`" in (report.label.text if report.label else "")


@pytest.mark.parametrize(
    ("inputs", "context", "text"),
    [
        ("position: i32[] = 0", (), None),
        ("bias: [n, words], position: i32[] = 0", ("bias",), None),
        ("position: i32[] = 0, bias: [n, words], gain: [] = 1", ("bias",), None),
        ("asked: i32[n, t], position: i32[] = 0, bias: [n, words]", ("asked", "bias"), "asked"),
        ("asked: i32[n, t], position: i32[] = 0, more: i32[n, t]", ("asked", "more"), None),
        ("kind: i32[n], position: i32[] = 0", ("kind",), None),
    ],
)
def test_what_is_the_same_for_all_tokens_is_the_context(
    inputs: str, context: tuple[str, ...], text: str | None
) -> None:
    net = program(HEADER.format(inputs=inputs))
    step = TokenStep(8, 1, sizes=(("t", 5),) if "t]" in inputs else ())
    found = pipeline.elaborate_tokens(net, "net", {}, step)
    assert found.context == context
    assert text_input(found.elaboration, found.context) == text
    if not context:
        assert not pipeline.elaborate_logits(net, "net", {}, step).context
        return
    with pytest.raises(ProblemError, match="E0660") as refused:
        pipeline.elaborate_logits(net, "net", {}, step)
    label = refused.value.problem.report().label
    needs = ", ".join(f"needs `{each}`" for each in context)
    assert label is not None
    assert label.text == f"it {needs}"


@pytest.mark.parametrize(("top_k", "fits"), [(0, True), (1, True), (7, True), (8, False)])
def test_no_more_tokens_are_drawn_from_than_there_are(top_k: int, *, fits: bool) -> None:
    step = TokenStep(8, 1, top_k=top_k)
    if fits:
        drawn = pipeline.elaborate_tokens(program(GENERATES), "net", {}, step).elaboration
        assert drawn.graph.outputs["token"].type.shape == (1, 1)
        return
    with pytest.raises(ProblemError):
        pipeline.elaborate_tokens(program(GENERATES), "net", {}, step)
