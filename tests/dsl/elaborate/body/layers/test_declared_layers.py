"""Layers that are declared before they are applied: their weights, sizes and configuration."""

import pytest

from tests.dsl.elaborate.body.blocks.adapted import codes, in_net, names


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


@pytest.mark.parametrize(
    ("layer", "given", "used", "said"),
    [
        ("l: linear(8)", "l", "x |> f", []),
        ("l: linear(8)", "l", "x |> f |> f(training=false)", []),
        ("l: linear(8)", "l(frozen=true)", "x |> f(training=false)", []),
        ("l: linear(8)", "l(bias=false)", "x |> f", ["E0202"]),
        ("l: linear(8)", "l", "x |> f(bias=false)", ["E0202"]),
        ("l: linear(8)", "l(8)", "x |> f", ["E0202"]),
        ("l: linear(8)", "l", "x |> a: f", ["E0223"]),
        ("y = x |> l: linear(8)", "l", "x |> f", []),
        ("y = x |> l: linear(8)", "l(frozen=true)", "x |> f(training=false)", []),
        ("y = x |> l: linear(8)", "l", "x |> a: f", ["E0223"]),
    ],
)
def test_a_layer_that_is_given_has_its_weights_and_configuration(
    layer: str, given: str, used: str, said: list[str]
) -> None:
    line = f"layer {layer}" if layer.startswith("l") else layer
    text = in_net(f"  {line}\n  return x |> Takes({given})\n")
    text += f"block Takes(f: block)(x: [n, 8]) -> [n, 8] = {used}\n"
    assert [code for code in codes(text) if code not in ("N0001", "E0207")] == said


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
