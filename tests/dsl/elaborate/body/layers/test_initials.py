"""Initial values given where a layer is applied."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.builtins.initial_values import initial_setting
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import Invocation, StaticValue
from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Sinusoids,
    Uniform,
    Zeros,
)
from meganeura_dsl.pipeline import Program, elaborate_model

NET = """
block Net(init=zeros, bias=false)(x: [n, 8]) -> [n, 8]:
  return x |> fc: LAYER

model net = Net()
"""


def infos(text: str, **config: StaticValue) -> list[ParameterInfo]:
    """Returns the parameters of the model `net` of a program."""
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors
    return list(elaborate_model(Program(module), "net", config=config).parameters)


def begins(layer: str, **config: StaticValue) -> dict[str, Initializer]:
    """Returns the initializers of a layer that is given 8 channels."""
    found = infos(NET.replace("LAYER", layer), **config)
    return {info.name.removeprefix("fc."): info.initializer for info in found}


def reports(text: str) -> list[str]:
    """Returns the messages about a program."""
    return [
        render(each) for each in pipeline.check(Source("net.mgn", text), lambda _: None).reports
    ]


def test_a_value_is_given_for_what_either_branch_declares() -> None:
    text = """
block Scaled(wide: bool)(x: [n, 8]) -> [n, 8]:
  if wide:
    param w: [8] = ones
    return x * w
  else:
    for i in 0..2:
      if i == 1:
        param u: [8] = ones
        x = x * u
  return x

model net = Scaled(wide=WIDE)
"""
    assert [
        reports(text.replace("WIDE", each)) for each in ("true, w=zeros", "false, u=zeros")
    ] == [
        [],
        [],
    ]
    (found,) = infos(text.replace("WIDE", "false, u=zeros"))
    assert (found.name, found.initializer) == ("u", Zeros())


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("linear(8, weight=zeros, bias=ones)", {"weight": Zeros(), "bias": Ones()}),
        ("linear(8, bias=uniform(0.5))", {"weight": KaimingUniform(), "bias": Uniform(0.5)}),
        ("linear(8, zeros)", {"weight": KaimingUniform(), "bias": Zeros()}),
        ("linear(8, bias=false, weight=normal(std=0.02))", {"weight": Normal(0.02)}),
        ("linear(8, bias=false, weight=0.5)", {"weight": Full(0.5)}),
        ("linear(8, bias=false, weight=1 / 8)", {"weight": Full(0.125)}),
        ("linear(8, bias=false, weight=sinusoids())", {"weight": Sinusoids()}),
        ("linear(8, bias=false, weight=kaiming_uniform())", {"weight": KaimingUniform()}),
        ("linear(8, weight=init, bias=bias)", {"weight": Zeros()}),
        ("linear(8, weight=ones if bias else zeros, bias=bias)", {"weight": Zeros()}),
        ("layer_norm(weight=zeros)", {"weight": Zeros(), "bias": Zeros()}),
        ("rms_norm(weight=0)", {"weight": Full(0.0)}),
    ],
)
def test_arguments_say_how_parameters_begin(layer: str, expected: dict[str, Initializer]) -> None:
    assert begins(layer) == expected
    problems = [each for each in reports(NET.replace("LAYER", layer)) if "E0207" not in each]
    assert problems == []


def test_configuration_hands_them_on() -> None:
    layer = "linear(8, weight=init, bias=bias)"
    assert begins(layer, init=Normal(0.1)) == {"weight": Normal(0.1)}
    assert begins(layer, init=0.5, bias=Ones()) == {"weight": Full(0.5), "bias": Ones()}
    assert begins(layer, bias=True) == {"weight": Zeros(), "bias": Uniform(8**-0.5)}
    chosen = "linear(8, bias=(zeros if bias else false))"
    assert begins(chosen, bias=True) == {"weight": KaimingUniform(), "bias": Zeros()}
    assert begins(chosen, bias=Ones()) == {"weight": KaimingUniform(), "bias": Zeros()}
    assert begins(chosen) == {"weight": KaimingUniform()}
    assert begins("linear(8, bias=not bias)", bias=Ones()) == {"weight": KaimingUniform()}


def test_layers_alike_but_for_their_initial_values_are_not_mixed_up() -> None:
    found = infos("""
block Net()(x: [n, 8]) -> [n, 8]:
  x = x |> [0]: linear(8) |> [1]: linear(8, weight=zeros) |> [2]: linear(8, bias=zeros)
  return x |> [3]: linear(8) |> [4]: linear(8, weight=zeros)

model net = Net()
""")
    assert [info.initializer for info in found if info.name.endswith("weight")] == [
        KaimingUniform(), Zeros(), KaimingUniform(), KaimingUniform(), Zeros(),
    ]  # fmt: skip
    assert [info.initializer for info in found if info.name.endswith("2.bias")] == [Zeros()]


def test_a_wrapper_hands_them_to_the_layer_labelled_with_a_dot() -> None:
    found = infos("""
block Dense(d)(x: [n, c]) -> [n, d]:
  return x |> .: linear(d, weight=ones)

model dense = Dense(8)

block Net()(x: [n, 8]) -> [n, 8]:
  return x |> a: Dense(8, bias=zeros) |> b: dense(weight=normal(1.0)) |> c: Dense(8)

model net = Net()
""")
    assert {info.name: info.initializer for info in found} == {
        "a.weight": Ones(), "a.bias": Zeros(),
        "b.weight": Normal(1.0), "b.bias": Uniform(8**-0.5),
        "c.weight": Ones(), "c.bias": Uniform(8**-0.5),
    }  # fmt: skip


def test_a_model_may_be_told_and_a_layer_applied_again_keeps_what_it_was_told() -> None:
    text = """
block Scale(d)(x: [n, d]) -> [n, d]:
  param weight: [d] = ones
  return x * weight

model scale = Scale(8, weight=zeros)

block Net()(x: [n, 8]) -> [n, 8]:
  y = x |> a: scale |> b: scale(weight=normal(1.0))
  return y |> a

model net = Net()
"""
    assert reports(text) == []
    assert {info.name: info.initializer for info in infos(text)} == {
        "a.weight": Zeros(),
        "b.weight": Normal(1.0),
    }


@pytest.mark.parametrize(
    ("layer", "headline"),
    [
        ("linear(8, wieght=zeros)", "error[E0230]: `linear` has no parameter `wieght`"),
        ("batch_norm(running_mean=ones)", "error[E0230]: `batch_norm` has no parameter"),
        ("linear(8, wieght=3)", "error[E0202]: `linear` has no argument `wieght`"),
        ("linear(8, weight=true)", "error[E0203]: this needs an initial value for `weight`"),
        ("linear(8, weight=x)", "error[E0203]: this needs an initial value for `weight`"),
        ("linear(8, true, bias=zeros)", "error[E0202]: `linear` got `bias` twice"),
        ("linear(8, bias=3)", "error[E0203]: this needs a condition"),
        ("linear(zeros)", "error[E0203]: this needs a size"),
        ("linear(8, weight=uniform())", "error[E0202]: `uniform` needs `bound`"),
        ("linear(8, weight=uniform(true))", "error[E0203]: this needs a number that is known"),
        ("linear(8, weight=uniform(n ** 0.5))", "error[E0203]: this needs a number that is known"),
        ("linear(8, weight=normal(1, 2))", "error[E0202]: `normal` got 1 argument too many"),
        ("linear(8, weight=sinusoids(3))", "error[E0202]: `sinusoids` got 1 argument too many"),
        ("linear(8, bias=sinusoids())", "error[E0231]: `bias` cannot begin as `sinusoids()`"),
        ("linear(8, weight=zeros + 1)", "error[E0203]: this needs a number"),
    ],
)
def test_what_cannot_be_is_refused(layer: str, headline: str) -> None:
    messages = [each for each in reports(NET.replace("LAYER", layer)) if "E0207" not in each]
    assert messages[0].startswith(headline), messages[0]


DECLARED = {
    "param w: [3] = ones": ("f32[3]", "param", "f32", Ones()),
    "param w: [3] = zeros()": ("f32[3]", "param", "f32", Zeros()),
    "param w: [3] = 1 / 4": ("f32[3]", "param", "f32", Full(0.25)),
    "param w: f16[3] = 2": ("f16[3]", "param", "f16", Full(2.0)),
    "param w: [3]": "`w` has no initial value",
    "param w: [3] = x": "`x` is not an initial value",
    "param w: [3] = true": "`true` is not an initial value",
    "param w: i64[3] = ones": "tensors cannot be `i64` here",
    "param w: bool[3] = ones": "a trainable parameter holds real numbers",
    "param w: i32[3] = ones": "a trainable parameter holds real numbers",
    "frozen param w: i32[3]": ("i32[3]", "frozen", "i32", Zeros()),
    "frozen param w: [3] = normal(1)": ("f32[3]", "frozen", "f32", Normal(1.0)),
    "frozen param w: i64[3] = ones": "tensors cannot be `i64` here",
    "frozen param w: i32[3] = normal(1)": "`w` cannot begin as `normal(1.0)`",
    "frozen param w: u32[3] = kaiming_uniform()": "`w` cannot begin as `kaiming_uniform()`",
    "frozen param w: i32[4, 4] = sinusoids()": "`w` cannot begin as `sinusoids()`",
    "state w: i64[] ": ("i32[]", "state", "i64", Zeros()),
    "state w: i64[] = 2": ("i32[]", "state", "i64", Full(2.0)),
    "state w: i32[] = -1": ("i32[]", "state", "i32", Full(-1.0)),
    "state w: i32[] = 16777216": ("i32[]", "state", "i32", Full(2.0**24)),
    "state w: i32[] = 16777217": "`w` cannot begin as `16777217.0`",
    "state w: i32[] = -16777217": "`w` cannot begin as `-16777217.0`",
    "state w: i32[] = 1.5": "`w` cannot begin as `1.5`",
    "state w: u32[] = 3": ("u32[]", "state", "u32", Full(3.0)),
    "state w: u32[] = -1": "`w` cannot begin as `-1.0`",
    "state w: bool[3]": ("bool[3]", "state", "bool", Zeros()),
    "state w: bool[3] = ones": ("bool[3]", "state", "bool", Ones()),
    "state w: bool[3] = 1": ("bool[3]", "state", "bool", Full(1.0)),
    "state w: bool[3] = 2": "`w` cannot begin as `2.0`",
    "state w: f16[3] = 1.5": ("f16[3]", "state", "f16", Full(1.5)),
    "param w: [1, 4] = sinusoids()": ("f32[1, 4]", "param", "f32", Sinusoids()),
    "param w: [5, 6] = sinusoids()": ("f32[5, 6]", "param", "f32", Sinusoids()),
    "param w: [4, 2] = sinusoids()": "`w` cannot begin as `sinusoids()`",
    "param w: [4, 5] = sinusoids()": "`w` cannot begin as `sinusoids()`",
    "param w: [4] = sinusoids()": "`w` cannot begin as `sinusoids()`",
    "param w: [2, 4, 4] = sinusoids()": "`w` cannot begin as `sinusoids()`",
    "cache w: [n, 3]": ("f32[n, 3]", "cache", "f32", Zeros()),
    "cache w: [n, 3] = zeros": ("f32[n, 3]", "cache", "f32", Zeros()),
    "cache w: [n, 3] = zeros()": ("f32[n, 3]", "cache", "f32", Zeros()),
    "cache w: [n, 3] = 0": ("f32[n, 3]", "cache", "f32", Full(0.0)),
    "cache w: [n, 3] = normal(0.1)": "the cache `w` does not begin as one number",
}


@pytest.mark.parametrize("line", DECLARED)
def test_what_is_declared_has_a_type_a_kind_and_a_first_value(line: str) -> None:
    text = f"block Net()(x: [n, 3]) -> [n, 3]:\n  {line}\n  return x\nmodel net = Net()\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    wanted = DECLARED[line]
    errors = [each.headline for each in result.reports if each.code != "E0207"]
    assert errors == ([wanted] if isinstance(wanted, str) else [])
    if not errors:
        elaboration = elaborate_model(result.program, "net")
        (info,) = (*elaboration.parameters, *elaboration.caches)
        assert (str(info.type), info.kind, info.stored, info.initializer) == wanted


def test_a_cache_beside_another_says_that_it_has_begun() -> None:
    text = "block Net()(x: [n, 3]) -> [n, 3]:\n  cache w: [n, 3] = FIRST\n  return x + w\n"
    found = {}
    for first in ("ones", "-1e30", "0"):
        source = Source("net.mgn", text.replace("FIRST", first) + "model net = Net()\n")
        caches = elaborate_model(pipeline.check(source, lambda _: None).program, "net").caches
        found[first] = [f"{each.name}: {each.type}" for each in caches]
    begun = ["w: f32[n, 3]", "w.begun: i32[]"]
    assert found == {"ones": begun, "-1e30": begun, "0": begun[:1]}


def test_a_parameter_that_this_configuration_does_not_have() -> None:
    (message,) = reports("""
block Scale(shifted=false)(x: [n, d]) -> [n, d]:
  if shifted:
    param shift: [d] = zeros
    x = x + shift
  return x

block Net()(x: [n, 8]) -> [n, 8]:
  return x |> scale: Scale(shift=ones)

model net = Net()
""")
    assert "`Scale` has no parameter `shift` in this configuration" in message


def test_initial_values_after_set() -> None:
    assert initial_setting(Invocation("zeros", {})) == Zeros()
    assert initial_setting(Invocation("sinusoids", {})) == Sinusoids()
    assert initial_setting(Invocation("normal", {"std": 0.5})) == Normal(0.5)
    assert initial_setting(Invocation("normal", {"bound": 0.5})) is None
    assert initial_setting(Invocation("zeros", {"std": 0.5})) is None
    assert initial_setting(Invocation("adam", {})) is None
