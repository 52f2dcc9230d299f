"""Every optimizer against its formula, written here anew in NumPy; `tests/parity` has PyTorch's.

Gradients are fed, so that three steps of a vector, of wide and tall matrices and of a kernel are
compared in double precision, with hyperparameters so large that each term is seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.optimizers.optimizers import (
    OPTIMIZERS,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lamb,
    Lion,
    Muon,
    Optimizer,
    RmsProp,
    Sgd,
)
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

SHAPES = {"vector": (3,), "wide": (2, 5), "tall": (5, 2), "kernel": (2, 3, 2, 2)}
MATRICES = ("wide", "tall", "kernel")
STEPS = 3
QUINTIC = (3.4445, -4.7750, 2.0315)


@dataclass
class Memory:
    """The states of one parameter, zeros at first."""

    shape: tuple[int, ...]
    held: dict[str, Array] = field(default_factory=dict[str, Array])

    def __getitem__(self, name: str) -> Array:
        return self.held.get(name, np.zeros(self.shape))

    def mix(self, name: str, beta: float, new: Array) -> Array:
        """The next moving mean."""
        self.held[name] = beta * self.held.get(name, np.zeros_like(new)) + (1 - beta) * new
        return self.held[name]


def decay(o: Optimizer, p: Array) -> float:
    strength = float(getattr(o, "weight_decay", 0.0))
    return 0.0 if getattr(o, "decay", "all") == "matrices" and p.ndim < 2 else strength


def rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def adam(o: Adam, p: Array, g: Array, m: Memory, t: int) -> Array:
    is_decoupled = isinstance(o, AdamW)
    g = g if is_decoupled else g + decay(o, p) * p
    p = p * (1 - o.lr * decay(o, p)) if is_decoupled else p
    mean, square = m.mix("mean", o.beta1, g), m.mix("square", o.beta2, g**2)
    if o.amsgrad:
        square = m.held["largest"] = np.maximum(m["largest"], square)
    corrected = mean / (1 - o.beta1**t)
    return p - o.lr * corrected / (np.sqrt(square / (1 - o.beta2**t)) + o.eps)


def lamb(o: Lamb, p: Array, g: Array, m: Memory, t: int) -> Array:
    mean, square = m.mix("mean", o.beta1, g), m.mix("square", o.beta2, g**2)
    r = mean / (1 - o.beta1**t) / (np.sqrt(square / (1 - o.beta2**t)) + o.eps) + decay(o, p) * p
    length, step = float(np.linalg.norm(p)), float(np.linalg.norm(r))
    return p - o.lr * (length / step if length and step else 1.0) * r


def rmsprop(o: RmsProp, p: Array, g: Array, m: Memory) -> Array:
    g = g + decay(o, p) * p
    square = m.mix("square", o.alpha, g**2)
    square = square - m.mix("mean", o.alpha, g) ** 2 if o.centered else square
    step = g / (np.sqrt(square) + o.eps)
    if o.momentum:
        step = m.held["momentum"] = o.momentum * m["momentum"] + step
    return p - o.lr * step


def adagrad(o: Adagrad, p: Array, g: Array, m: Memory, t: int) -> Array:
    g = g + decay(o, p) * p
    m.held["sum"] = m["sum"] + g**2
    root = np.sqrt(o.initial_accumulator_value + m["sum"]) + o.eps
    return p - o.lr / (1 + (t - 1) * o.lr_decay) * g / root


def lion(o: Lion, p: Array, g: Array, m: Memory) -> Array:
    direction = np.sign(o.beta1 * m["mean"] + (1 - o.beta1) * g)
    m.mix("mean", o.beta2, g)
    return p - o.lr * (direction + decay(o, p) * p)


def adafactor(o: Adafactor, p: Array, g: Array, m: Memory, t: int) -> Array:
    w = t**o.beta2_decay
    if p.ndim < 2:
        variance = m.mix("variance", 1 - w, g**2)
    else:
        rows = m.mix("rows", 1 - w, np.mean(g**2, -1))
        columns = m.mix("columns", 1 - w, np.mean(g**2, -2))
        whole = np.maximum(rows.mean(-1), o.eps1)[..., None, None]
        variance = rows[..., None] * columns[..., None, :] / whole
    u = g / np.maximum(np.sqrt(variance), o.eps1)
    length = max(o.eps2, rms(p)) * min(o.lr, t**-0.5)
    return (1 - o.lr * decay(o, p)) * p - length * u / max(1, rms(u) / o.d)


def muon(o: Muon, p: Array, g: Array, m: Memory) -> Array:
    buffer = m.mix("momentum", o.momentum, g)
    ahead = g + o.momentum * (buffer - g) if o.nesterov else buffer
    x = ahead.reshape(len(p), -1)
    rows, columns = x.shape
    a, b, c = QUINTIC
    x = x / max(float(np.linalg.norm(x)), o.eps)
    for _ in range(o.ns_steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    longer = {
        "original": max(1, rows / columns) ** 0.5,
        "match_rms_adamw": 0.2 * max(x.shape) ** 0.5,
    }
    step = o.lr * longer[o.adjust_lr_fn] * x.reshape(p.shape)
    return (1 - o.lr * o.weight_decay) * p - step


def sgd(o: Sgd, p: Array, g: Array, m: Memory) -> Array:
    g = g + decay(o, p) * p
    buffer = m.held["momentum"] = o.momentum * m["momentum"] + g
    return p - o.lr * (g + o.momentum * buffer if o.nesterov else buffer)


def moved(o: Optimizer, p: Array, g: Array, m: Memory, t: int) -> Array:
    """The parameter after step t, counted from 1."""
    match o:
        case Adam():
            return adam(o, p, g, m, t)
        case Lamb():
            return lamb(o, p, g, m, t)
        case RmsProp():
            return rmsprop(o, p, g, m)
        case Adagrad():
            return adagrad(o, p, g, m, t)
        case Lion():
            return lion(o, p, g, m)
        case Adafactor():
            return adafactor(o, p, g, m, t)
        case Muon():
            return muon(o, p, g, m)
        case Sgd():
            return sgd(o, p, g, m)
        case _:
            raise AssertionError(o)


def stepped(settings: TrainingSettings, shapes: Sequence[str]) -> Graph:
    """A step whose gradients are the inputs `g.NAME`."""
    build = Builder()
    terms = [
        build.add(
            Sum(tuple(range(len(SHAPES[name])))),
            build.add(
                Mul(),
                build.add(Parameter(name, DType.F32, SHAPES[name], "param")),
                build.add(Input(f"g.{name}", DType.F32, SHAPES[name])),
            ),
        )
        for name in shapes
    ]
    loss = terms[0]
    for term in terms[1:]:
        loss = build.add(Add(), loss, term)
    return training_step(build.graph({"loss": loss}), settings)


def runs(
    graphs: Graph | Sequence[Graph], kept: dict[str, Array], gradients: Sequence[dict[str, Array]]
) -> Iterator[dict[str, Array]]:
    """Everything that is kept after each step, of graphs in turn, in double precision."""
    turns = [graphs] if isinstance(graphs, Graph) else graphs
    interpreters = [Interpreter(graph, Precision.DOUBLE) for graph in turns]
    for name, leaf in interpreters[0].leaves.items() | interpreters[-1].leaves.items():
        if name.startswith("optimizer."):
            dtype = np.float64 if leaf.type.dtype is DType.F32 else np.int32
            kept = {**kept, name: np.zeros([int(str(size)) for size in leaf.type.shape], dtype)}
    for interpreter, each in zip(cycle(interpreters), gradients, strict=False):
        fed = {f"g.{name}": g for name, g in each.items()}
        kept = {**kept, **interpreter.run({**kept, **fed}).updates}
        yield kept


def numbers(
    names: Sequence[str], steps: int = STEPS
) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Parameters, and the gradients of all steps."""
    random = np.random.default_rng(0)
    start = {name: random.normal(size=SHAPES[name]) for name in names}
    return start, [{name: random.normal(size=SHAPES[name]) for name in names} for _ in range(steps)]


CASES: tuple[Optimizer, ...] = (
    Sgd(0.25, momentum=0.5, weight_decay=0.5),
    Sgd(0.25, momentum=0.5, nesterov=True, weight_decay=0.5, decay="matrices"),
    Adam(0.25, beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.5, decay="matrices"),
    Adam(0.25, beta1=0.0, beta2=0.75, eps=0.125, amsgrad=True),
    AdamW(0.25, beta1=0.5, beta2=0.25, eps=0.125, weight_decay=0.5, amsgrad=True),
    RmsProp(0.25, alpha=0.75, eps=0.125, weight_decay=0.5),
    RmsProp(0.25, alpha=0.75, eps=0.125, momentum=0.5, centered=True),
    Adagrad(0.25, lr_decay=0.5, initial_accumulator_value=0.5, eps=0.125, weight_decay=0.5),
    Lion(0.25, beta1=0.25, beta2=0.75, weight_decay=0.5),
    Lamb(0.25, beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.5),
    Adafactor(0.25, beta2_decay=-0.5, eps1=0.125, eps2=0.75, d=1.25, weight_decay=0.5),
    Adafactor(2.0, d=1.0),
    Adafactor(0.25, eps1=1.5),
    Muon(0.25, momentum=0.75, weight_decay=0.5),
    Muon(0.25, nesterov=False, ns_steps=2, adjust_lr_fn="match_rms_adamw"),
)


DECAYING: tuple[Optimizer, ...] = (
    Sgd(0.25, weight_decay=0.5, decay="matrices"),
    Adam(0.25, eps=0.125, weight_decay=0.5, decay="matrices"),
    AdamW(0.25, eps=0.125, weight_decay=0.5, decay="matrices"),
    RmsProp(0.25, eps=0.125, weight_decay=0.5, centered=True, decay="matrices"),
    Adagrad(0.25, eps=0.125, weight_decay=0.5, decay="matrices"),
    Lion(0.25, weight_decay=0.5, decay="matrices"),
    Lamb(0.25, eps=0.125, weight_decay=0.5, decay="matrices"),
    Adafactor(0.25, weight_decay=0.5, decay="matrices"),
)
"""Those whose decay may leave vectors alone."""


def test_every_optimizer_is_tried() -> None:
    assert {type(each) for each in CASES} == set(OPTIMIZERS.values())
    can_leave = {each for each in OPTIMIZERS.values() if hasattr(each(), "decay")}
    assert {type(each) for each in DECAYING} == can_leave


@pytest.mark.parametrize("optimizer", [*CASES, *DECAYING], ids=str)
def test_steps_are_those_of_the_formula(optimizer: Optimizer) -> None:
    names = MATRICES if isinstance(optimizer, Muon) else tuple(SHAPES)
    expected, gradients = numbers(names)
    memories = {name: Memory(SHAPES[name]) for name in names}
    steps = runs(stepped(TrainingSettings(optimizer), names), expected, gradients)
    for t, (kept, each) in enumerate(zip(steps, gradients, strict=True), 1):
        for name, g in each.items():
            expected[name] = moved(optimizer, expected[name], g, memories[name], t)
            np.testing.assert_allclose(kept[name], expected[name], rtol=1e-6, atol=1e-9)


STILL = (*CASES, *(each() for each in OPTIMIZERS.values()))


@pytest.mark.parametrize("optimizer", STILL, ids=str)
def test_gradients_that_are_all_zero_so_far_are_no_division_by_zero(optimizer: Optimizer) -> None:
    """Two steps without any gradient, of zeros and of other numbers; then one of each sign."""
    names = MATRICES if isinstance(optimizer, Muon) else tuple(SHAPES)
    expected, gradients = numbers(names)
    expected["wide"] = np.zeros(SHAPES["wide"])
    memories = {name: Memory(SHAPES[name]) for name in names}
    gradients[:2] = [{name: np.zeros(SHAPES[name]) for name in names}] * 2
    steps = runs(stepped(TrainingSettings(optimizer), names), expected, gradients)
    for t, (kept, each) in enumerate(zip(steps, gradients, strict=True), 1):
        for name, g in each.items():
            expected[name] = moved(optimizer, expected[name], g, memories[name], t)
            assert np.isfinite(kept[name]).all()
            np.testing.assert_allclose(kept[name], expected[name], rtol=1e-5, atol=1e-9)


def test_an_update_is_made_of_the_mean_of_its_batches() -> None:
    """Of four batches, two make an update; the average follows the parameter at each."""
    optimizer = Adam(0.25, eps=0.125)
    settings = TrainingSettings(optimizer, accumulate=2, ema=0.75, clip_norm=0.5)
    start, gradients = numbers(("vector",), 5)
    expected, average, memory = start["vector"], np.zeros(3), Memory((3,))
    parts = (replace(settings, part=StepPart.SUM), settings)
    found = list(runs([stepped(each, ("vector",)) for each in parts], start, gradients))
    for t in (1, 2):
        before, (first, last) = expected, found[2 * t - 2 : 2 * t]
        mean = (gradients[2 * t - 2]["vector"] + gradients[2 * t - 1]["vector"]) / 2
        clipped = mean * min(1, 0.5 / (float(np.linalg.norm(mean)) + 1e-6))
        expected = adam(optimizer, expected, clipped, memory, t)
        average = average + 0.25 * (expected - average)
        np.testing.assert_allclose(first["vector"], before, rtol=1e-6)
        np.testing.assert_allclose(last["vector"], expected, rtol=1e-6)
        np.testing.assert_allclose(last["optimizer.vector.average"], average, rtol=1e-6)
    np.testing.assert_array_equal(found[4]["vector"], found[3]["vector"])


@pytest.mark.parametrize("ema", [0.0, 0.25])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_an_average_follows_the_parameter_as_it_is_kept(dtype: DType, ema: float) -> None:
    """A step of 1e-4 from 1 is none to half floats; `ema` 0 takes the parameter itself."""
    build = Builder()
    weight, x = build.add(Parameter("w", dtype, (), "param")), build.add(Input("x", dtype, ()))
    loss = build.graph({"loss": build.add(Mul(), weight, x)})
    graph = training_step(loss, TrainingSettings(Sgd(1e-4), ema=ema))
    one = np.array(1, np.float32 if dtype is DType.F32 else np.float16)
    fed = {"w": one, "x": one, "optimizer.w.average": np.array(0.5, np.float32)}
    found = Interpreter(graph).run(fed).updates
    kept = float(found["w"])
    assert kept == (1.0 if dtype is DType.F16 else pytest.approx(0.9999, abs=1e-7))
    average = 0.5 + (1 - ema) * (kept - 0.5)
    np.testing.assert_allclose(found["optimizer.w.average"], average, rtol=1e-7)


def test_a_parameter_of_an_interval_moves_at_its_multiples() -> None:
    """With `every` 3 it moves at steps 3 and 6 alone, by the gradients of these."""
    optimizer = AdamW(0.25, eps=0.125, weight_decay=0.5)
    settings = replace(TrainingSettings(optimizer), every=(("*e*", 2), ("vector", 3)))
    intervals = {"vector": 3, "wide": 2, "tall": 1}
    start, gradients = numbers(tuple(intervals), 7)
    found = list(runs(stepped(settings, tuple(intervals)), start, gradients))
    for name, every in intervals.items():
        expected, memory = start[name], Memory(SHAPES[name])
        for step, (kept, each) in enumerate(zip(found, gradients, strict=True), 1):
            if step % every == 0:
                expected = adam(optimizer, expected, each[name], memory, step // every)
            np.testing.assert_allclose(kept[name], expected, rtol=1e-6)


def test_a_batch_without_finite_gradients_changes_nothing() -> None:
    settings = TrainingSettings(Adam(0.25), skip_not_finite=True)
    start, gradients = numbers(("vector", "wide"), 3)
    gradients[1]["vector"] = np.array([1.0, np.nan, 2.0])
    first, second, third = runs(stepped(settings, ("vector", "wide")), start, gradients)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
    assert not np.array_equal(third["wide"], first["wide"])
    assert third["optimizer.step"] == 2
    graph = stepped(settings, ("vector", "wide"))
    for each, skipped in zip(gradients, (0, 1, 0), strict=True):
        fed = first | {f"g.{name}": g for name, g in each.items()}
        assert Interpreter(graph, Precision.DOUBLE).run(fed).outputs["update.skipped"] == skipped
    moving = stepped(replace(settings, skip_not_finite=False), ("vector", "wide"))
    _, second, _ = runs(moving, start, gradients)
    np.testing.assert_array_equal(np.isnan(second["vector"]), [False, True, False])
    assert np.isfinite(second["wide"]).all()


def test_bounds_of_elements_come_before_that_of_the_norm() -> None:
    settings = TrainingSettings(Sgd(1.0), clip_norm=1.0, clip_value=0.75)
    start, gradients = numbers(("vector",), 1)
    gradients[0]["vector"] = np.array([3.0, -0.25, -9.0])
    (kept,) = runs(stepped(settings, ("vector",)), start, gradients)
    bounded = np.array([0.75, -0.25, -0.75])
    expected = start["vector"] - bounded / np.linalg.norm(bounded)
    np.testing.assert_allclose(kept["vector"], expected, rtol=1e-5)
