"""Blocks as values, layers that are declared, and what a proof knows of them."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import elaborate_model

ADAPTED = """
block Mlp(hidden, act=gelu, fc=linear)(x: [...b, d]) -> [...b, d]:
  return x |> fc1: fc(hidden) |> act |> fc2: fc(d)

block lora(out, r=8, base=linear)(x: [...b, d]) -> [...b, out]:
  y = x |> .: base(out)
  param lora_A: [r, d] = kaiming_uniform()
  param lora_B: [out, r] = zeros
  return y + x @ rearrange(lora_A, [r, d] -> [d, r]) @ rearrange(lora_B, [out, r] -> [r, out])

block Outer(act=tanh, fc=linear)(x: [n, d]) -> [n, d]:
  return x |> mlp: Mlp(4 * d, act, fc)
"""


def codes(text: str) -> list[str]:
    """The codes of what is said about a program."""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    return [report.code for report in result.reports]


def names(text: str, model: str = "net") -> list[str]:
    """The names of what a model of a program holds."""
    program = pipeline.check(Source("net.mgn", text), lambda _: None).program
    return [info.name for info in elaborate_model(program, model).parameters]


def in_net(body: str, blocks: str = ADAPTED) -> str:
    """A program whose model has this body."""
    return f"{blocks}\nblock Net()(x: [n, 8]) -> [n, 8]:\n{body}\nmodel net = Net()\n"


def test_a_block_that_takes_blocks_is_proved_for_all() -> None:
    result = pipeline.check(Source("net.mgn", ADAPTED), lambda _: None)
    assert result.problems == ()
    assert result.proved == ("Mlp", "lora", "Outer")


def test_what_its_header_does_not_say_is_not_assumed() -> None:
    text = """
block Bad(fc=linear)(x: [n, d]) -> [n, d]:
  return x |> fc1: fc(2 * d)
"""
    (report,) = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert report.code == "E0303"
    assert [remark.title for remark in report.remarks] == ["for example"]


def test_blocks_go_through_several_blocks() -> None:
    text = in_net("  return x |> a: Outer(relu) |> b: Outer(fc=lora(r=2))")
    assert codes(text) == []
    assert names(text) == [
        *(f"a.mlp.fc{i}.{name}" for i in (1, 2) for name in ("weight", "bias")),
        *(f"b.mlp.fc{i}.{name}" for i in (1, 2) for name in ("weight", "bias", "lora_A", "lora_B")),
    ]


def test_positions_count_what_is_left() -> None:
    text = in_net("  return x |> a: Mlp(4, fc=lora(r=2, base=linear(bias=false)))")
    assert codes(text) == []
    assert "a.fc1.bias" not in names(text)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("act=3", "E0203"),
        ("act=max_pool", "E0221"),
        ("act=softmax(axis=-2)", "E0221"),
        ("act=layer_norm", "E0221"),
        ("fc=conv1d", "E0221"),
        ("fc=relu", "E0221"),
        ("fc=lora(q=3)", "E0202"),
        ("fc=lora(1, 2, linear, 4)", "E0202"),
        ("fc=lora(2, out=3)", "E0202"),
        ("fc=lora(out=3)", "E0221"),
        ("act=gely", "E0201"),
        ("act=sum", "E0203"),
        ("hidden=relu", "E0203"),
    ],
)
def test_what_does_not_fit(given: str, code: str) -> None:
    arguments = given if given.startswith("hidden") else f"4, {given}"
    assert codes(in_net(f"  return x |> a: Mlp({arguments})")) == [code]


def test_a_block_is_chosen_by_configuration() -> None:
    text = in_net("  return x |> a: Mlp(4, act=relu if 2 > 1 else tanh)")
    assert codes(text) == []


@pytest.mark.parametrize(
    "line", ["y = linear(8)", "y = relu", "y = relu + x", "y = [relu, tanh]", "y = -relu"]
)
def test_a_block_is_no_tensor_and_no_number(line: str) -> None:
    assert codes(in_net(f"  {line}\n  return x + y")) == ["E0203"]


def test_weights_stand_where_their_layer_is_declared() -> None:
    text = """
block Inner()(x: [n, 8]) -> [n, 8]:
  layer late: linear(8, bias=false)
  layer early: linear(8, bias=false)
  return x |> own: linear(8, bias=false) |> early |> late

block Net()(x: [n, 8]) -> [n, 8]:
  param first: [8] = ones
  layer b: Inner()
  layer a: linear(8, bias=false)
  return (x * first) |> c: linear(8, bias=false) |> a |> b |> b

model net = Net()
"""
    assert codes(text) == []
    assert names(text) == [
        "first", "b.late.weight", "b.early.weight", "b.own.weight", "a.weight", "c.weight",
    ]  # fmt: skip


def test_later_applications_must_fit_the_weights() -> None:
    body = "  layer a: linear(4, bias=false)\n  return x |> a |> a |> b: linear(8)"
    assert codes(in_net(body)) == ["E0205"]


def test_a_layer_has_its_configuration() -> None:
    body = "  layer a: linear(8, bias=false)\n  return x |> a(bias=true)"
    assert codes(in_net(body)) == ["E0202"]


def test_a_layer_is_given_to_a_block() -> None:
    blocks = "block Twice(f: block)(x: [n, d]) -> [n, d]:\n  return x |> f |> f\n"
    body = "  layer a: linear(8)\n  return x |> Twice(a) |> Twice(tanh) |> Twice(a)"
    text = in_net(body, blocks)
    assert codes(text) == ["N0001"]
    assert names(text) == ["a.weight", "a.bias"]


def test_a_layer_given_to_a_header_has_its_sizes() -> None:
    body = "  layer a: linear(8)\n  return x |> m: Mlp(8, fc=a)"
    assert codes(in_net(body)) == ["E0221"]


def test_weights_of_a_given_block_are_read_in_each_model() -> None:
    text = """
block Tied(fc=linear)(x: [n, d]) -> [n, d]:
  y = x |> a: fc(d)
  return y @ a.weight

expect Tied maps [n, 8] -> [n, 8]
"""
    assert codes(text) == ["N0001"]


def test_blocks_that_apply_themselves_are_refused() -> None:
    text = """
block Again(f: block)(x: [n, d]) -> [n, d]:
  return x |> f(f)

model net = Again(Again)
expect net maps [n, 8] -> [n, 8]
"""
    assert "E0208" in codes(text)


def test_imported_blocks_are_proved_where_they_are_given() -> None:
    library = "block odd()(x: [...s]) -> [...s]:\n  return x |> linear(3)\n"
    text = "from lib import odd\nblock B(f=odd)(x: [n, d]) -> [n, d]:\n  return x |> f\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: Source("lib.mgn", library))
    assert [report.code for report in result.reports if report.severity.value == "error"]


@pytest.mark.parametrize(
    "body",
    [
        "x |> part[1]: fc(d) |> part[1]: linear(d)",
        "x |> part: fc(d) |> part.sub: linear(d)",
        "x |> part.sub: linear(d) |> part: fc(d)",
        "x |> part.sub: fc(d) |> part: fc(d)",
    ],
)
def test_below_a_block_that_may_be_any_no_other_has_a_path(body: str) -> None:
    """One of its layers could have any name there; beside it, and around it, others may stand."""
    text = f"block Net(fc=linear)(x: [n, d]) -> [n, d]:\n  return {body}\n"
    assert codes(text) == ["E0205"]
    apart = text.replace("part: fc", "parts: fc").replace("part[1]: fc", "part[2]: fc")
    assert codes(apart) == []
