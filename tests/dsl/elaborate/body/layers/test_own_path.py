"""The label `.`: a layer on the path of the block it stands in."""

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.pipeline import Program, elaborate_model

WRAPPED = """
block norm_2d()(x: [n, c, h, w]) -> [n, c, h, w]:
  y = x |> rearrange([n, c, h, w] -> [n, h, w, c]) |> .: layer_norm
  return y |> rearrange([n, h, w, c] -> [n, c, h, w])
"""


def parameters(text: str, model: str = "net", **config: StaticValue) -> list[str]:
    """The names of what a model of a program holds."""
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors
    elaboration = elaborate_model(Program(module), model, config=dict(config))
    return [info.name for info in elaboration.parameters]


def reports(text: str) -> list[str]:
    """Returns the messages about a program."""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    return [render(report) for report in result.reports]


def test_a_wrapper_renames_nothing() -> None:
    text = f"""{WRAPPED}
block Net()(x: [n, 3, h, w]) -> [n, 8, h, w]:
  return x |> conv: conv2d(8, 1) |> norm: norm_2d

model net = Net()
"""
    assert reports(text) == []
    assert parameters(text) == ["conv.weight", "conv.bias", "norm.weight", "norm.bias"]


def test_it_is_listed_by_the_name_of_the_layer() -> None:
    result = pipeline.check(Source("net.mgn", WRAPPED), lambda _: None)
    assert result.bindings[(3, "layer_norm")] == "f32[n, h, w, c]"
    assert not any(name == "." for _, name in result.bindings)


def test_wrappers_of_wrappers_and_models() -> None:
    text = """
block One(d)(x: [n, 8]) -> [n, d]:
  return x |> .: linear(d)

block Two(d)(x: [n, 8]) -> [n, d]:
  return x |> .: One(d)

model two = Two(4)

block Net()(x: [n, 8]) -> [n, 8]:
  return x |> first: Two(8) |> [0].second: two(d=8) |> .: two(d=8)

model net = Net()
model inner = .: Net()
"""
    assert reports(text) == []
    expected = ["first.weight", "first.bias", "0.second.weight", "0.second.bias", "weight", "bias"]
    assert parameters(text) == expected
    assert parameters(text, "inner") == expected


def test_without_a_label_the_block_around_it_is_refused() -> None:
    (message,) = reports(f"""{WRAPPED}
block Outer()(x: [n, c, h, w]) -> [n, c, h, w]:
  return x |> .: norm_2d

block Net()(x: [n, c, h, w]) -> [n, c, h, w]:
  return x |> Outer
""")
    assert message.startswith("error[E0204]: `Outer` owns weights but has no name")
    assert "would create weight, bias" in message


def test_names_are_those_of_the_block_around_it() -> None:
    twice = """
block Twice(d)(x: [n, d]) -> [n, d]:
  return x |> .: linear(d) |> .: linear(d)

model net = deep.inside: Twice(4)
"""
    (message,) = reports(twice)
    assert message.startswith("error[E0205]: `weight` is defined twice")
    assert "share the weights" not in message  # by a label that is not in scope
    (message,) = reports("""
block Scaled(d)(x: [n, d]) -> [n, d]:
  param weight: [d] = ones
  return weight * x |> .: layer_norm
""")
    assert message.startswith("error[E0205]: `weight` is defined twice")


def test_a_proof_that_takes_the_wrapper_at_its_word_sees_its_names() -> None:
    (message,) = reports(f"""{WRAPPED}
block Net()(x: [n, c, h, w]) -> [n, c, h, w]:
  param norm.bias: [c] = zeros
  return x |> norm: norm_2d
""")
    assert message.startswith("error[E0205]: `norm.bias` is defined twice")


def test_a_parameter_of_the_layer_is_a_value_by_its_name() -> None:
    text = """
block Tied(v, d)(ids: i32[n, s]) -> [n, s, v]:
  x = ids |> .: embedding(v, d)
  return x @ rearrange(weight, [v, d] -> [d, v])

model net = wte: Tied(10, 4)
"""
    assert reports(text) == []
    assert parameters(text) == ["wte.weight"]
    (message,) = reports("block A()(x: [n, 8]) -> [n, 8]:\n  return (x |> .: linear(8)) + wieght\n")
    assert message.startswith("error[E0201]: nothing here is called `wieght`")


def test_a_block_that_wraps_itself_is_refused() -> None:
    messages = reports("""
block A(d)(x: [n, d]) -> [n, d]:
  return x |> .: B(d)

block B(d)(x: [n, d]) -> [n, d]:
  return x |> .: A(d)

""")
    assert all(message.startswith("error[E0208]") for message in messages)
    assert len(messages) == 1  # it is one circle, whichever of them one begins with


def test_what_is_declared_stands_where_its_layer_was_declared_and_names_may_begin_alike() -> None:
    text = """
block Two()(x: [n, 2]) -> [n, 2]:
  layer late: linear(2)
  layer late2: linear(2)
  y = x |> early: linear(2)
  return y |> late2 |> late

block Net()(x: [n, 2]) -> [n, 2]:
  layer fc: Two()
  layer fc_1: linear(2, bias=false)
  layer fc1: linear(2, bias=false)
  param fc_bias: [2] = zeros
  y = x |> fc10: linear(2, bias=false)
  return ((y |> fc1 |> fc) + fc_bias) |> fc_1

model net = Net()
"""
    assert reports(text) == []
    of_two = [
        f"{name}.{kind}" for name in ("late", "late2", "early") for kind in ("weight", "bias")
    ]
    assert parameters(text) == [
        *(f"fc.{name}" for name in of_two), "fc_1.weight", "fc1.weight", "fc_bias", "fc10.weight",
    ]  # fmt: skip


CELL = """\
block Cell(hidden)(x: [n, d]) -> [n, 6] = x |> a: linear(hidden) |> b: linear(6)
block Word(hidden)(x: [n, 8]) -> [n, 6] = x |> .: Cell(2 * hidden)
"""
TWO = """\
block Two()(x: [n, 8]) -> [n, 6], [2 * n, 6]:
  layer w: Word(10)
  return x |> w, concat(x, x, axis=0) |> w
model two = Two()
"""


def test_a_wrapper_that_is_applied_to_two_batch_sizes_has_scopes_of_its_own() -> None:
    text = CELL + TWO + "expect two holds w.a.weight: [20, 8], w.b.weight: [6, 20]\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert [report.code for report in result.reports] == []
    assert result.proved == ("Cell", "Word", "Two")


def test_a_wrapper_whose_weights_need_the_batch_size_is_refused() -> None:
    text = CELL.replace("block Word(hidden)", "block Word(_h)").replace("2 * hidden", "n") + TWO
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert "Two" not in result.proved
    assert not result.fine
