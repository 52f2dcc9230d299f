"""Results with names: taken by name or by place they are the same; wrong uses are refused."""

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.interpreter import evaluate
from tests.folded import each_of

AGENT = """\
block Agent(c)(x: [n, 8]) -> logits: [n, c], value: [n]:
  y = x |> fc: linear(c)
  return y, sum(y, 1)
"""
HEAD = "block Net()(x: [n, 8]) -> logits: [n, 8], value: [n]:"
X = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
WEIGHTS = {
    "agent.fc.weight": np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32),
    "agent.fc.bias": np.random.default_rng(2).normal(size=8).astype(np.float32),
}


def checked(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("net.mgn", text), lambda _: None)


def program(*body: str) -> str:
    """A model of a block of these statements, which have a layer `agent`."""
    lines = "\n  ".join(("layer agent: Agent(8)", *body))
    return f"{AGENT}\n{HEAD}\n  {lines}\n\nmodel net = Net()\n"


def elaborated(*body: str) -> Elaboration:
    result = checked(program(*body))
    assert result.fine, [(each.headline, each.label) for each in result.reports]
    return pipeline.elaborate_model(result.program, "net", sizes={"n": 3})


ONCE = {
    "of a name": ("out = x |> agent", "return out.logits, out.value"),
    "of an expression": ("return (x |> agent).logits, (x |> agent).value",),
    "of a call": ("return agent(x).logits, agent(x).value",),
    "by place": ("logits, value = x |> agent", "return logits, value"),
    "all of a name": ("out = x |> agent", "return out"),
    "all of an expression": ("return x |> agent",),
    "a name taken apart": ("out = x |> agent", "logits, value = out", "return logits, value"),
    "bound anew": ("out = 2.0 * x |> agent", "out = x |> agent", "return out"),
    "in a choice": (
        "out = 2.0 * x |> agent",
        "if 1 < 2:",
        "  out = x |> agent",
        "return out",
    ),
}


@each_of("body", ONCE.values(), ids=ONCE.keys())
def test_by_name_and_by_place_they_are_the_same(body: tuple[str, ...]) -> None:
    found = evaluate(elaborated(*body).graph, {"x": X, **WEIGHTS}).outputs
    assert [*found] == ["logits", "value"]
    logits = X @ WEIGHTS["agent.fc.weight"].T + WEIGHTS["agent.fc.bias"]
    np.testing.assert_allclose(found["logits"], logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["value"], logits.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("iterations", ["scan _t in 0..2:", "for _i in 0..2:"])
def test_iterations_carry_them(iterations: str) -> None:
    """Each iteration finds the results of the one before, and the last ones are known behind it."""
    body = ("out = x |> agent", iterations, "  out = out.logits |> agent", "return out")
    found = evaluate(elaborated(*body).graph, {"x": X, **WEIGHTS}).outputs
    logits = X
    for _ in range(3):
        logits = logits @ WEIGHTS["agent.fc.weight"].T + WEIGHTS["agent.fc.bias"]
    np.testing.assert_allclose(found["logits"], logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["value"], logits.sum(1), rtol=1e-4, atol=1e-3)


def test_an_iteration_of_any_index_keeps_them() -> None:
    text = AGENT + (
        "block Net(depth)(x: [n, 8]) -> [n]:\n"
        "  layer agent: Agent(8)\n"
        "  out = x |> agent\n"
        "  for i in 0..depth:\n"
        "    if i < depth - 1:\n"
        "      out = out.logits |> agent\n"
        "  return out.value\n"
    )
    assert checked(text).fine


PROVED = {
    "facts of one of several": (
        "block A()(x: [n, 8]) -> best: i32[n], most: [n] where 0 <= best, best < 8:\n"
        "  return argmax(x, 1), max(x, 1)\n"
        "block B()(x: [n, 8], table: [8, 4]) -> [n, 4]:\n"
        "  return gather(table, A()(x).best)\n"
    ),
    "a block that is given names them as the default does": (
        f"{AGENT}"
        "block Other(c)(x: [n, 8]) -> logits: [n, c], value: [n]:\n"
        "  return x |> fc: linear(c), sum(x, 1)\n"
        "block B(head=Agent)(x: [n, 8]) -> [n, 8]:\n"
        "  return (x |> a: head(8)).logits\n"
        "block C()(x: [n, 8]) -> [n, 8]:\n"
        "  return x |> b: B(head=Other)\n"
    ),
    "a header": (
        f"{AGENT}"
        "block B(f: block()(x: [n, 8]) -> (logits: [n, 4], value: [n]))(x: [n, 8]) -> [n]:\n"
        "  return (x |> a: f).value\n"
        "block C()(x: [n, 8]) -> [n]:\n"
        "  return x |> b: B(Agent(4))\n"
    ),
    "names of types and of statements": (
        "block A()(x: [n, 8]) -> state: [n, 8], show: [n, 8]:\n  return x, 2 * x\n"
    ),
    "an expectation": (
        f"{AGENT}model agent = Agent(4)\nexpect agent maps [n, 8] -> logits: [n, 4], value: [n]\n"
    ),
}


@each_of("text", PROVED.values(), ids=PROVED.keys())
def test_proofs(text: str) -> None:
    result = checked(text)
    assert result.fine, [(each.headline, each.label) for each in result.reports]


def signature(results: str) -> str:
    return f"block A(c)(x: [n, 8]) -> {results}:\n  return x, sum(x, 1)\n"


REFUSED = {
    "one name twice": (signature("y: [n, 8], y: [n]"), "E0122"),
    "the name of an input": (signature("y: [n, 8], x: [n]"), "E0122"),
    "the name of a size": (signature("n: [n, 8], y: [n]"), "E0122"),
    "the name of a number": (signature("c: [n, 8], y: [n]"), "E0122"),
    "the name of a parameter": (
        "block A()(x: [n]) -> y: [n], w: [n]:\n  param w: [] = 1\n  return x, w * x\n",
        "E0122",
    ),
    "one without a name": (signature("y: [n, 8], [n]"), "E0141"),
    "a reserved word": (signature("for: [n, 8], y: [n]"), "E0120"),
    "an element type": (signature("bool: [n, 8], y: [n]"), "E0120"),
    "an element type of another system": (signature("float32[n, 8], [n]"), "E0126"),
    "no colon": (signature("y [n, 8], z [n]"), "E0101"),
    "an equals sign": (signature("y=[n, 8], z=[n]"), "E0101"),
    "brackets": (signature("(y: [n, 8], z: [n])"), "E0101"),
    "another name": (program("out = x |> agent", "return out.logit, out.value"), "E0234"),
    "a name of one result": (
        "block A()(x: [n]) -> [n]:\n  out = x + 1\n  return out.logits\n",
        "E0234",
    ),
    "a name where there are none": (
        (
            "block A()(x: [n]) -> [n], [n]:\n  return x, x\n"
            "block B()(x: [n]) -> [n]:\n  return A()(x).first\n"
        ),
        "E0234",
    ),
    "names the other way round": (
        program("logits, value = x |> agent", "return value, logits"),
        "E0235",
    ),
    "results the other way round": (
        f"{AGENT}block B()(x: [n, 8]) -> value: [n, 4], logits: [n]:\n  return x |> a: Agent(4)\n",
        "E0235",
    ),
    "several where one is needed": (program("out = x |> agent", "return relu(out)"), "E0203"),
    "several in a pipe": (program("out = x |> agent |> relu", "return out, out"), "E0203"),
    "several in a sum": (program("out = x |> agent", "return out + 1, x"), "E0203"),
    "an index": (program("out = x |> agent", "return out[0], out[1]"), "E0203"),
    "a gradient with respect to one": (
        program("out = x |> agent", "return grad(sum(out.value), out.logits), out.value"),
        "E0203",
    ),
    "an iteration that leaves something else": (
        program("out = x |> agent", "scan _t in 0..2:", "  out = out.logits", "return out, x"),
        "E0309",
    ),
    "an iteration that alone has them": (
        program("scan t in 0..2:", "  out = x |> agent", "  v[t] = out.value", "return out, v"),
        "E0201",
    ),
    "a block that is given with other names": (
        (
            f"{AGENT}"
            "block Other(c)(x: [n, 8]) -> value: [n, c], logits: [n]:\n"
            "  return x |> fc: linear(c), sum(x, 1)\n"
            "block B(head=Agent)(x: [n, 8]) -> [n, 8]:\n"
            "  return (x |> a: head(8)).logits\n"
            "block C()(x: [n, 8]) -> [n, 8]:\n"
            "  return x |> b: B(head=Other)\n"
        ),
        "E0221",
    ),
    "an expectation of other names": (
        f"{AGENT}model agent = Agent(4)\nexpect agent maps [n, 8] -> value: [n, 4], logits: [n]\n",
        "E0401",
    ),
    "a fact of floats": (
        "block A()(x: [n]) -> a: i32[n], b: [n] where 0 <= b:\n  return i32(x), x\n",
        "E0334",
    ),
    "a fact of two results": (
        "block A()(x: i32[n]) -> a: i32[n], b: i32[n] where a <= b:\n  return x, x\n",
        "E0334",
    ),
}


@each_of(("text", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(text: str, code: str) -> None:
    codes = {each.code for each in checked(text).reports} - {"E0207"}
    assert codes == {code}
