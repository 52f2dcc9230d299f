"""Layers that begin as copies of others and follow them, as exponential moving averages do."""

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_train
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from meganeura_runtime.io.weights import initial_values

BLOCKS = """\
block Net(hidden)(x: [n, 8]) -> [n, hidden]:
  return x |> fc: linear(hidden) |> norm: batch_norm |> out: linear(hidden)

model net = net: Net(4)

"""
HEAD = """\
train fit(x: [batch, 8])
    where batch >= 2:
  layer online: Net(4)
  layer target: Net(4) = online
"""
AWAY = "  minimize mean((x |> online) * (x |> target(frozen=true, training=false)))\n"
FOLLOW = "  update target = 0.75 * target + 0.25 * online\n"


def elaborated(text: str, *, training: bool = True) -> Elaboration:
    module = Linker(lambda _: None, Sink()).link(Source("fit.mgn", BLOCKS + text))
    return elaborate_train(Program(module), "fit", sizes={"batch": 3}, training=training)


def step(text: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns the inputs and the updates of a step."""
    made = training_step(elaborated(text).graph, TrainingSettings(Sgd(0.5)))
    feeds = RandomInputs(3).feeds(made)
    return feeds, dict(Interpreter(made, Precision.DOUBLE).run(feeds).updates)


def codes(text: str) -> list[tuple[str, str]]:
    reports = pipeline.check(Source("fit.mgn", BLOCKS + text), lambda _: None).reports
    return [(each.code, each.headline) for each in reports if each.code.startswith("E")]


def test_a_copy_begins_as_the_other_layer_in_every_tensor() -> None:
    values = initial_values(elaborated(HEAD + AWAY).parameters, seed=5)
    pairs = [(name, name.replace("target", "online")) for name in values if "target" in name]
    assert len(pairs) == 9
    for copy, of in pairs:
        np.testing.assert_array_equal(values[copy], values[of])
    assert float(np.ptp(values["online.fc.weight"])) > 0


def test_a_copy_of_a_copy_begins_as_the_first_in_every_tensor() -> None:
    rest = "frozen=true, training=false"
    text = f"""{HEAD}  layer third: Net(4) = target
  layer other: linear(4)
  layer fourth: Net(4) = third
  layer another: linear(4) = other
  y = (x |> online) + (x |> other) * (x |> another({rest}))
  minimize mean(y * (x |> target({rest})) + (x |> third({rest})) * (x |> fourth({rest})))
  update fourth = 0.5 * fourth + 0.25 * third + 0.25 * online
"""
    assert codes(text) == []
    values = initial_values(elaborated(text).parameters, seed=5)
    of = {"target": "online", "third": "online", "fourth": "online", "another": "other"}
    for name, value in values.items():
        layer, _, rest = name.partition(".")
        first = values[f"{of.get(layer, layer)}.{rest}"]
        np.testing.assert_array_equal(value, first)
    assert len(values) == 4 * 9 + 4
    feeds, new = step(text)
    for rest in ("fc.weight", "norm.bias", "norm.running_var"):
        online = new if "online." + rest in new else feeds
        wanted = 0.5 * feeds[f"fourth.{rest}"] + 0.25 * feeds[f"third.{rest}"]
        np.testing.assert_allclose(new[f"fourth.{rest}"], wanted + 0.25 * online[f"online.{rest}"])


def test_a_name_in_an_update_is_that_of_a_value_before_that_of_a_model() -> None:
    text = f"""{HEAD}  net = 3.0
  norm = 0.5
{AWAY}  update target = norm * target + net * online
"""
    feeds, new = step(text)
    wanted = 0.5 * feeds["target.fc.bias"] + 3 * new["online.fc.bias"]
    np.testing.assert_allclose(new["target.fc.bias"], wanted)


def test_an_update_of_halves_is_stored_as_halves() -> None:
    text = """
block Half()(x: [n, 8]) -> [n, 8]:
  param w: f16[8] = ones
  return x * f32(w)

train fit(x: [batch, 8]):
  layer online: Half()
  layer target: Half() = online
  minimize mean((x |> online) * (x |> target(frozen=true, training=false)))
  update target = 0.75 * f32(target) + sum(x) * online
"""
    assert codes(text) == []
    feeds, new = step(text)
    wanted = 0.75 * feeds["target.w"] + feeds["x"].sum() * new["online.w"]
    np.testing.assert_allclose(new["target.w"], wanted, rtol=2e-3)
    (of,) = (each.type for each in elaborated(text).parameters if each.name == "target.w")
    graph = elaborated(text).graph
    assert graph.updates["target.w"].type == of
    assert of.dtype is DType.F16


@pytest.mark.parametrize("order", ["after", "before"])
def test_an_average_follows_what_the_objective_left_or_found(order: str) -> None:
    """Below the objective it sees the moved weights, above it those of the start."""
    above = AWAY.replace("minimize ", "loss = ")
    below = FOLLOW + "  minimize loss\n"
    feeds, new = step(HEAD + (AWAY + FOLLOW if order == "after" else above + below))
    other = new if order == "after" else feeds
    for name in (each for each in feeds if each.startswith("target.") and "batches" not in each):
        of = name.replace("target", "online")
        current = new if "running" in name else other  # which `online` updates where it is applied
        np.testing.assert_allclose(new[name], 0.75 * feeds[name] + 0.25 * current[of], 1e-12)
    assert "target.norm.num_batches_tracked" not in new
    assert not np.array_equal(new["online.fc.weight"], feeds["online.fc.weight"])


def test_an_average_of_a_model_and_what_is_applied_below_it() -> None:
    body = """\
train fit(x: [batch, 8])
    where batch >= 2:
  y = x |> net
  layer slow: Net(4) = net
  before = x |> slow(training=false)
  minimize mean(y * y) over net
  update slow = 0.5 * slow + 0.5 * net
  metric moved = mean((x |> slow(training=false, frozen=true)) - stop_gradient(before))
"""
    feeds, new = step(body)
    name = "fc.bias"
    wanted = (feeds[f"slow.{name}"] + new[f"net.{name}"]) / 2
    np.testing.assert_allclose(new[f"slow.{name}"], wanted, 1e-12)


def test_in_evaluation_nothing_follows() -> None:
    assert not elaborated(HEAD + AWAY + FOLLOW, training=False).graph.updates
    assert elaborated(HEAD + AWAY + FOLLOW).graph.updates.keys() > {"target.fc.weight"}


REFUSED = {
    "moved by two objectives that name it": (
        HEAD + AWAY.rstrip() + " over online\n  minimize mean(x |> online) over online\n",
        ("E0508", "`online.fc.weight` is moved twice"),
    ),
    "reached above": (
        HEAD + "  minimize mean((x |> online) - (x |> target(training=false)))\n" + FOLLOW,
        ("E0508", "`target.fc.weight` is moved twice"),
    ),
    "reached below": (
        HEAD + AWAY + FOLLOW + "  minimize mean(x |> target(training=false)) over target\n",
        ("E0508", "`target.fc.weight` is moved twice"),
    ),
    "other sizes": (
        HEAD.replace("target: Net(4)", "target: Net(5)") + "  minimize mean(x |> online)"
        " + mean(x |> target(frozen=true, training=false))\n",
        ("E0229", "`target` and `online` differ in `fc.weight`"),
    ),
    "other names": (
        HEAD.replace(" = online", "").replace("target: Net(4)", "target: linear(4)")
        + AWAY.replace(", training=false", "")
        + FOLLOW,
        ("E0229", "`target` and `online` differ in `weight`"),
    ),
    "never applied": (
        HEAD + "  minimize mean(x |> online)\n" + FOLLOW,
        ("E0222", "nothing applies the layer `target`"),
    ),
    "its own statistics": (
        HEAD + AWAY.replace(", training=false", "") + FOLLOW,
        (
            "E0216",
            (
                "`target.norm.running_mean` is updated by the layer itself: apply it with "
                "`training=false`"
            ),
        ),
    ),
    "of nothing": (
        HEAD.replace("= online", "= other") + AWAY,
        ("E0201", "nothing here is called `other`"),
    ),
    "of a model that is not applied": (
        HEAD.replace("= online", "= net") + AWAY,
        ("E0222", "nothing applies the layer `net`"),
    ),
    "another shape": (
        HEAD + AWAY + "  update target = mean(online)\n",
        ("E0303", "`update target.fc.weight` is given another shape than it has"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    text, wanted = REFUSED[name]
    assert codes(text) == [wanted]


WIDER = """\
block Twice()(x: [n, d]) -> [n, 2 * d]:
  return concat(x |> norm: rms_norm, x, axis=1)

block Again()(x: [n, d]) -> [n, d]:
  layer fc: linear(d)
  return x |> Twice |> fc |> fc
"""
OTHERS = """\
block Both()(x: [n, s, d], y: [m, d]) -> [n, s, d], [m, d]:
  layer fc: linear(d)
  return x |> fc, y |> fc
"""
HALVES = """\
block Halves(w)(x: [n, w]) -> [n, w]
    where w % 2 == 0:
  layer fc: linear(w)
  x = x |> rearrange([n, 2 * half] -> [n, 2, half]) |> rearrange([n, 2, half] -> [n, 2 * half])
  return x |> fc |> gelu |> fc
"""


def test_a_layer_applied_again_to_other_sizes_is_proved_to_have_the_same_weights() -> None:
    """For [n, 2 d] and [n, d] a linear layer needs others; for other batches it does not."""
    found = codes(WIDER.replace("x |> Twice", "x |> twice: Twice"))
    first, again = "f32[d, 2*d]", "f32[d, d]"
    told = f"`fc.weight` is {first}, and applied here it would be {again}"
    assert found == [("E0205", told)]
    assert codes(OTHERS) == []
    assert codes(HALVES) == []  # 2 * half is w


COPY = """\
train fit(x: [batch, 8])
    where batch >= 2:
  layer teacher: Net(4) = net
  y = x |> teacher(frozen=true, training=false)
"""


def test_a_model_is_copied_before_it_is_applied() -> None:
    assert (
        codes(COPY + "  minimize mse(x |> net, y)\n  update teacher = 0.5 * teacher + 0.5 * net\n")
        == []
    )
    values = initial_values(elaborated(COPY + "  minimize mse(x |> net, y)\n").parameters, seed=5)
    np.testing.assert_array_equal(values["teacher.fc.weight"], values["net.fc.weight"])


def test_a_model_that_is_never_applied_is_no_layer_to_copy() -> None:
    unapplied = ("E0222", "nothing applies the layer `net`")
    assert unapplied in codes(COPY + "  minimize mean(x |> fc: linear(2)) + mean(y)\n")
    update = "  update teacher = 0.5 * teacher + 0.5 * net\n  minimize mse(x |> net, y)\n"
    assert unapplied in codes(COPY + update)
