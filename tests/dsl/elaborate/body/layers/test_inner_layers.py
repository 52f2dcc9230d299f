"""`x |> net.encoder`: a layer of a layer is applied again, with its weights and in its mode."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.transforms.optimizers.optimizers import AdamW
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from tests.dsl.elaborate.body.blocks.adapted import codes, names
from tests.same_graph import first_difference

PARTS = """
block Enc(d)(x: [n, c]) -> [n, d]:
  return x |> fc: linear(d) |> dropout(0.5)

block Steps(depth)(x: [n, d]) -> [n, d]:
  for i in 0..depth:
    x = x |> steps[i]: linear(d) |> tanh
  return x

block Wrapped()(x: [n, d]) -> [n, d]:
  return x |> .: Steps(2)

block Auto(quiet=false)(x: [n, 8]) -> [n, 8]:
  layer late: linear(8)
  return x |> encoder: Enc(8, frozen=quiet) |> decoder: linear(8) |> late

block Outer()(x: [n, 8]) -> [n, 8]:
  return x |> auto

model auto = Auto()
model still = Auto(frozen=true)
model calm = net: still(training=false)
"""
TRAIN = "train f(x: [batch, 8]):\n"


def graph_of(lines: str, *, training: bool = False) -> Graph:
    body = "".join(f"  {line}\n" for line in lines.split("\n"))
    result = pipeline.check(Source("net.mgn", f"{PARTS}\n{TRAIN}{body}"), lambda _: None)
    assert result.fine, [report.headline for report in result.reports]
    sizes = {"batch": 4}
    return pipeline.elaborate_train(result.program, "f", sizes=sizes, training=training).graph


@pytest.mark.parametrize(
    ("by_path", "flat"),
    [
        (
            "y = x |> net: Auto()\nz = 2 * x |> net.encoder",
            "e = x |> a: Enc(8)\ny = e |> b: linear(8) |> c: linear(8)\nz = 2 * x |> a",
        ),
        (
            "y = x |> net: Auto()\nz = 2 * x |> net.encoder.fc |> net.late",
            "e = x |> a: linear(8)\ny = e |> b: linear(8) |> c: linear(8)\nz = 2 * x |> a |> c",
        ),
        (
            "y = x |> auto\nz = 2 * x |> auto.decoder",
            "e = x |> a: linear(8)\ny = e |> b: linear(8) |> c: linear(8)\nz = 2 * x |> b",
        ),
        (
            "y = x |> outer: Outer()\nz = 2 * x |> outer.decoder",
            "e = x |> a: linear(8)\ny = e |> b: linear(8) |> c: linear(8)\nz = 2 * x |> b",
        ),
        (
            "y = x |> net: Wrapped()\nz = x\nfor i in 0..2:\n  z = z |> net.steps[1 - i]",
            "y = x |> a: linear(8) |> tanh |> b: linear(8) |> tanh\nz = x |> b |> a",
        ),
        (  # the second `linear` of one type is replayed from a template
            "a = x |> one: Enc(8)\ny = a |> two: Enc(8)\nz = 2 * x |> two.fc",
            "y = x |> a: linear(8) |> b: linear(8)\nz = 2 * x |> b",
        ),
    ],
)
def test_a_layer_of_a_layer_has_its_weights(by_path: str, flat: str) -> None:
    end = "\nminimize mean(y * z)"
    assert first_difference(graph_of(by_path + end), graph_of(flat + end)) is None


def test_the_names_of_weights_are_those_of_the_layer_around() -> None:
    net = "block Net()(x: [n, 8]) -> [n, 8]:\n  y = x |> net: Auto()\n  return y |> net.encoder\n"
    assert names(f"{PARTS}{net}model net = Net()\n") == [
        "net.late.weight", "net.late.bias", "net.encoder.fc.weight", "net.encoder.fc.bias",
        "net.decoder.weight", "net.decoder.bias",
    ]  # fmt: skip


def test_it_is_proved_for_all_sizes() -> None:
    block = "block Both(d)(x: [n, d]) -> [n, d]:\n  y = x |> net: Steps(2)\n  return "
    assert codes(f"{PARTS}{block}y |> net.steps[0]\n") == []
    assert codes(f"{PARTS}{block}concat(x, y, axis=1) |> net.steps[0]\n") == ["E0205"]
    deep = "block Deep(k, d)(x: [n, d]) -> [n, d]:\n  x = x |> net: Steps(k)\n"
    assert codes(f"{PARTS}{deep}  return x |> net.steps[0]\n") == ["E0404"]
    model = "model deep = Deep(2, 4)\n"
    assert codes(f"{PARTS}{deep}  return x |> net.steps[1]\n{model}") == ["N0001"]
    assert codes(f"{PARTS}{deep}  return x |> net.steps[2]\n{model}") == ["E0201", "N0001"]


@pytest.mark.parametrize(
    ("lines", "moved", "draws"),
    [
        ("y = x |> net: Auto()\nz = x |> net.encoder", True, True),
        ("y = x |> net: Auto(frozen=true)\nz = x |> net.encoder", False, True),
        ("y = x |> net: Auto(quiet=true)\nz = x |> net.encoder", False, True),
        ("y = x |> net: Auto(training=false)\nz = x |> net.encoder", True, False),
        ("layer net: Auto(frozen=true)\ny = x |> net\nz = x |> net.encoder", False, True),
        ("layer net: Auto()\ny = x |> net(frozen=true)\nz = x |> net.encoder", True, True),
        ("y = x |> net: Auto()\nz = x |> net.encoder(frozen=true)", False, True),
        ("y = x |> net: Auto()\nz = x |> net.encoder(training=false)", True, False),
        ("y = x |> net: Auto(frozen=true)\nz = x |> net.encoder.fc(frozen=false)", False, False),
        ("y = x |> still\nz = x |> still.encoder", False, True),
        ("y = x |> calm\nz = x |> calm.encoder", False, False),
        ("y = x |> net: still\nz = x |> net.encoder.fc", False, False),
    ],
)
def test_it_is_in_the_mode_of_its_label(lines: str, moved: bool, draws: bool) -> None:  # noqa: FBT001
    graph = graph_of(
        f"{lines}\nminimize mean((z |> h: linear(1)) + mean(stop_gradient(y)))", training=True
    )
    step = training_step(graph, TrainingSettings(AdamW()))
    changed = {name for name in step.updates if not name.startswith(("optimizer.", "h."))}
    assert bool(changed) == moved, changed
    bits = sum(isinstance(value.op, RandomBits) for value in graph.values)
    of_net = graph_of(
        lines.partition("\nz")[0] + "\nminimize mean(y |> h: linear(1))", training=True
    )
    assert draws == (bits > sum(isinstance(value.op, RandomBits) for value in of_net.values))


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("y = x |> net.encoder\nz = x |> net: Auto()", "E0201"),
        ("y = x |> auto.encoder", "E0222"),
        ("z = x |> net: Auto()\ny = z |> net.encoders", "E0201"),
        ("z = x |> net: Auto()\ny = z |> other: net.encoder", "E0203"),
        ("z = x |> net: Auto()\ny = z |> net.encoder(8)", "E0202"),
        ("z = x |> net: Steps(3)\ny = z |> net.steps", "E0203"),
        ("z = x |> net: Steps(3)\ny = z |> net.steps[3]", "E0201"),
        ("z = x |> net: Auto()\nlayer other: net.encoder\ny = z |> other", "E0203"),
        ("z = x |> net: Auto()\ny = net.encoder(z)", "E0138"),
        ("z = x |> net: Outer()\ny = z |> auto.encoder", "E0201"),
        ("z = x |> auto |> head: linear(8)\ny = z |> auto.head", "E0201"),
        ("z = x |> head: linear(8)\ny = z |> other.head", "E0201"),
        ("z = foo(x) |> net: Auto()\ny = z |> net.encoder", "E0201"),
    ],
)
def test_what_is_refused(lines: str, code: str) -> None:
    body = "".join(f"  {line}\n" for line in lines.split("\n"))
    text = f"{PARTS}\nblock Net()(x: [n, 8]) -> [n, 8]:\n{body}  return y\n"
    assert [each for each in codes(text) if each != "E0207"] == [code]


def test_a_layer_that_its_block_never_applies() -> None:
    text = (
        "block In()(x: [n, 8]) -> [n, 8]:\n  layer never: linear(8)\n  return x |> fc: linear(8)\n"
        "block Net()(x: [n, 8]) -> [n, 8]:\n  y = x |> net: In()\n  return y |> net.never\n"
    )
    assert codes(text) == ["E0222", "E0222"]


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("net.encoder(x)", "x |> net.encoder"),
        ("net.encoder(x + x, training=false)", "(x + x) |> net.encoder(training=false)"),
        ("net.steps[0].fc(relu(x))", "relu(x) |> net.steps[0].fc"),
        ("auto.encoder(x)", "x |> auto.encoder"),
    ],
)
def test_a_call_behind_a_dot_is_told_the_pipe(call: str, cure: str) -> None:
    text = f"{PARTS}\nblock N()(x: [n, 8]) -> [n, 8]:\n  y = x |> net: Auto()\n  return {call}\n"
    (report,) = pipeline.check(Source("net.mgn", text), lambda _: None).reports[:1]
    assert (report.code, report.help and report.help.code) == ("E0138", cure)
