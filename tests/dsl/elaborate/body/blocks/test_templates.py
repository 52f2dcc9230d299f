"""Repeating a library layer from memory gives the graph that walking through it gives."""

from itertools import product
from pathlib import Path
from textwrap import dedent

import pytest

from meganeura_dsl.elaborate.body.blocks import block_application, layer_templates
from meganeura_dsl.ir.ops import Parameter, Where
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.pipeline import elaborate_model, elaborate_train, load


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("model", ["resnet18", "repvgg_a0", "whisper_tiny", "lm_tiny", "unet_tiny"])
def test_templates_change_no_graph(
    model: str, *, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = load(model)
    repeated = elaborate_model(program, model, training=training)
    monkeypatch.setattr(block_application, "apply_template", lambda *arguments: arguments[-1]())
    walked = elaborate_model(program, model, training=training)
    assert format_graph(repeated.graph) == format_graph(walked.graph)
    assert [info.name for info in repeated.parameters] == [info.name for info in walked.parameters]
    assert [info.type for info in repeated.parameters] == [info.type for info in walked.parameters]


def test_a_layer_without_a_mask_says_nothing_of_one_with_a_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default removes ops from the graph that are there if a tensor is given."""
    path = tmp_path / "net.mgn"
    path.write_text(
        dedent(
            """\
            block Net()(q: [n, h, s, d], k: [n, h, s, d], mask: bool[n, h, s, s]) -> [n, h, s, d]:
              a = attention(q, k, q)
              b = attention(q, k, a, mask)
              return attention(b, k, q, bias=f32(mask))

            model net = Net()
            """
        )
    )
    program = load(str(path))
    repeated = elaborate_model(program, "net").graph
    monkeypatch.setattr(block_application, "apply_template", lambda *arguments: arguments[-1]())
    assert format_graph(repeated) == format_graph(elaborate_model(program, "net").graph)
    assert any(isinstance(value.op, Where) for value in repeated.values)


def test_a_layer_of_equal_tensors_says_nothing_of_one_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way in which two or three inputs may be the same, in any order."""
    path = tmp_path / "net.mgn"
    twos, threes = product("xy", repeat=2), product(("x", "y"), repeat=3)
    sums = [f"mse({a}, {b})" for a, b in twos]
    sums += [f"sum(attention({a}, {b}, {c}))" for a, b, c in threes]
    path.write_text(
        "block Net()(x: [n, h, s, d], y: [n, h, s, d]) -> []:\n"
        f"  return {' + '.join(sums + sums[::-1])}\nmodel net = Net()\n"
    )
    program = load(str(path))
    repeated = elaborate_model(program, "net").graph
    monkeypatch.setattr(block_application, "apply_template", lambda *arguments: arguments[-1]())
    assert format_graph(repeated) == format_graph(elaborate_model(program, "net").graph)


def test_two_dropouts_draw_bits_of_their_own(tmp_path: Path) -> None:
    text = dedent(
        """\
        train fit(x: [batch, 8]):
          a = x |> dropout(0.5)
          b = x |> dropout(0.5)
          minimize mean((a - b) ** 2)
        """
    )
    path = tmp_path / "net.mgn"
    path.write_text(text)
    graph = elaborate_train(load(str(path)), sizes={"batch": 4}, training=True).graph
    streams = {value.op for value in graph.values if type(value.op).__name__ == "RandomBits"}
    assert len(streams) == 2


def test_a_model_that_is_given_its_inputs_by_name_shares_its_weights(tmp_path: Path) -> None:
    """The tensors that a model is applied to do not decide which weights it has."""
    file = tmp_path / "net.mgn"
    file.write_text("""
block Add(width)(x: [n, 4], y: [n, 4]) -> [n, width]:
  return (x + y) |> fc: linear(width)

model one = Add(width=4)

block Twice()(x: [n, 4]) -> [n, 4]:
  once = one(x=x, y=x)
  return one(x=once, y=x)

model net = Twice()
""")
    graph = elaborate_model(load(f"{file}:net"), "net").graph
    named = [value.op.name for value in graph.values if isinstance(value.op, Parameter)]
    assert sorted(named) == ["fc.bias", "fc.weight"]


def test_a_layer_with_states_is_repeated_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(
        dedent(
            """\
            block Net()(x: [n, 4, h, w]) -> [n, 4, h, w]:
              for i in 0..3:
                x = x |> norms[i]: batch_norm |> relu
              return x
            model net = Net()
            """
        )
    )
    sizes = {"n": 2, "h": 3, "w": 3}
    steps: list[int] = []
    repeat = layer_templates._repeat

    monkeypatch.setattr(
        layer_templates, "_repeat", lambda *arguments: steps.append(1) or repeat(*arguments)
    )
    repeated = elaborate_model(load(str(path)), sizes=sizes, training=True).graph
    assert len(steps) >= 2, "nothing was repeated"
    monkeypatch.setattr(block_application, "apply_template", lambda *arguments: arguments[-1]())
    walked = elaborate_model(load(str(path)), sizes=sizes, training=True).graph
    assert format_graph(repeated) == format_graph(walked)
    assert [(v.origin.path, str(v.origin)) for v in repeated.values] == [
        (v.origin.path, str(v.origin)) for v in walked.values
    ]
    assert {name.rpartition(".")[0] for name in repeated.updates} == {
        f"norms.{number}" for number in range(3)
    }


MADE_BEFORE = {
    "written out above": """\
block Net()(x: [n, 4], z: [n, 4]) -> [n, 4], [n, 4]:
  a = 0.5 * x * (1 + erf(x * 2 ** -0.5))
  b = x |> gelu
  return a + b, z |> gelu
""",
    "in an iteration that is elaborated twice, as it updates a cache": """\
block Net()(x: [n, s, 8]) -> [n, s, 8]:
  cache h: [n, 8]
  scan t in 0..s:
    update h = tanh((x[:, t] |> ih: linear(8)) + (h |> hh: linear(8)))
    y[:, t] = h
  return y
""",
}


@pytest.mark.parametrize("name", MADE_BEFORE)
def test_what_was_there_before_a_layer_is_not_taken_for_what_each_makes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.mgn").write_text(f"{MADE_BEFORE[name]}\nmodel net = Net()\n")
    program = load(str(tmp_path / "net.mgn"))
    repeated = elaborate_model(program, "net")
    monkeypatch.setattr(block_application, "apply_template", lambda *arguments: arguments[-1]())
    walked = elaborate_model(program, "net")
    assert format_graph(repeated.graph) == format_graph(walked.graph)
    assert [info.name for info in repeated.parameters] == [info.name for info in walked.parameters]


def test_what_a_layer_reads_is_looked_at_once(tmp_path: Path) -> None:
    """A number that is computed of itself 60 times has 2**60 ways to where it comes from."""
    file = tmp_path / "numbers.mgn"
    file.write_text(
        dedent("""\
        block A()(x: [n, 4]) -> [n, 4]:
          c = expand(f32(iota(4)), [4] -> [1, 4])
          for i in 0..60:
            c = c * c + c
          return x + sum(mean(f32(c), -1)) + sum(c |> l1: layer_norm)

        model a = A()
        """)
    )
    graph = elaborate_model(load(str(file)), "a").graph
    assert sum(isinstance(value.op, Parameter) for value in graph.values) == 2


def test_a_value_comes_from_the_innermost_line_that_is_no_library_s(tmp_path: Path) -> None:
    text = """\
block Inner()(x: [n, 4]) -> [n, 4]:
  return x |> half |> fc: linear(4)

block half()(x: [n, 4]) -> [n, 4]:
  return x / 2

block Net()(x: [n, 4]) -> [n, 4]:
  return x |> inner: Inner |> out: linear(4)

model net = Net()
"""
    (tmp_path / "net.mgn").write_text(text)
    graph = elaborate_model(load(str(tmp_path / "net.mgn")), "net").graph
    places = [
        (value.origin.span.line, value.origin.path)
        for value in graph.values
        if value.origin.span is not None
    ]
    assert list(dict.fromkeys(places)) == [(7, ""), (5, "inner"), (2, "inner.fc"), (8, "out")]
