"""Random scans over the second axis of a tensor `x: [n, s, d]`, as lines of a program."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Shape = tuple[str, str, str]


@dataclass(frozen=True)
class ScanLines:
    """The lines of a scan that leaves `x` with another second axis, and the facts it needs."""

    lines: tuple[str, ...]
    size: str
    where: tuple[str, ...] = ()


def scan_lines(random: Random, number: int, shape: Shape, label: Callable[[], str]) -> ScanLines:
    """A scan whose names have a number behind them; `label` gives a path no other layer has."""
    forms = (_walk, _walk, _pair, _nested, _replaced, _stated, _shared, _rare)
    return random.choice(forms)(random, number, shape, label)


def _walk(random: Random, number: int, shape: Shape, label: Callable[[], str]) -> ScanLines:
    """A recurrence in either direction, or without the first entry."""
    n, s, d = shape
    h, y = f"h{number}", f"y{number}"
    start = random.choice(("0", "0", "1"))
    place = "t" if start == "0" else "t - 1"
    back = f"{s} - 1 - t"
    read, write = random.choice((("t", place), (back, place), ("t", back)))
    entry = random.choice((f"x[:, {read}]", f"x[:, {read}]", f"x[..., {read}, :]"))
    if random.random() < 0.3:
        entry = f"({entry} |> {label()}: linear({d}{random.choice(('', ', frozen=true'))}))"
    noise = f" + random_uniform([{n}, {d}])" if random.random() < 0.1 else ""
    kept = random.choice((h, f"0.5 * {h}", f"where(t > 1, {h}, 0)", f"{h} / f32(t + 2)"))
    slices = random.choice((f":, {write}", f"..., {write}, :", f":, {write}, ..."))
    lines = (
        f"{h} = zeros([{n}, {d}])",
        f"scan t in {start}..{s}{random.choice(('', '', _ending(random, h)))}:",
        f"  {h} = tanh({kept} + {entry}){noise}",
        f"  {y}[{slices}] = {random.choice((h, f'{h} * {h}'))}",
        random.choice((f"x = {y}", f"x = {y} + mean({h})")),
    )
    if start == "0":
        return ScanLines(lines, s)
    return ScanLines(lines, f"({s}) - 1", (f"{s} >= 2",))


def _ending(random: Random, h: str) -> str:
    """A condition that ends the scan after some iterations."""
    return f" while {random.choice(('t < 2', f'sum({h}) < 1', f'any({h} > -0.5) or t < 1'))}"


def _pair(random: Random, number: int, shape: Shape, _label: Callable[[], str]) -> ScanLines:
    """Two carries that change places, and two tensors that are collected in opposite directions."""
    n, s, d = shape
    a, b, y, z = (f"{name}{number}" for name in "abyz")
    back = f"{s} - 1 - t"
    first, second = random.choice((("t", back), (back, "t"), ("t", "t")))
    lines = (
        f"{a} = {random.choice((f'ones([{n}, {d}])', 'mean(x, 1)', f'x[:, {s} - 1]'))}",
        f"{b} = zeros([{n}, {d}])",
        f"scan t in 0..{s}:",
        f"  v{number} = {a}",
        f"  {a} = sin({b} + x[:, t])",
        f"  {b} = 0.5 * v{number} * x[:, {random.choice(('t', back))}]",
        f"  {y}[:, {first}] = {a} + {b}",
        f"  {z}[:, {second}] = {random.choice((a, f'tanh(v{number})', 'x[:, t]'))}",
        random.choice((f"x = {y} * {z}", f"x = {y} - {z} + mean({a})")),
    )
    return ScanLines(lines, s)


def _nested(random: Random, number: int, shape: Shape, _label: Callable[[], str]) -> ScanLines:
    """A scan within a scan, over a few iterations or over the same axis."""
    n, s, d = shape
    h, y, g = (f"{name}{number}" for name in "hyg")
    iterations = random.choice(("2", "3", s))
    inner = f"x[:, {random.choice(('u', f'{s} - 1 - u'))}]" if iterations == s else "f32(u + 1)"
    lines = (
        f"{h} = zeros([{n}, {d}])",
        f"scan t in 0..{s}:",
        f"  {g} = x[:, t]",
        f"  scan u in 0..{iterations}:",
        f"    {g} = tanh({g} + 0.5 * {h}) * {inner}",
        f"    w{number}[u] = {g}",
        f"  {h} = 0.5 * {h} + {g}",
        f"  {y}[:, t] = {random.choice((h, f'mean(w{number}, 0)'))}",
        f"x = {y}",
    )
    return ScanLines(lines, s)


def _replaced(random: Random, number: int, shape: Shape, _label: Callable[[], str]) -> ScanLines:
    """A part of what an iteration finds is replaced, and nothing is carried."""
    _, s, _ = shape
    rest, y = f"rest{number}", f"y{number}"
    place = random.choice(("t", f"{s} - 1 - t", "0"))
    lines = (
        f"scan t in 0..{s}:",
        f"  {rest} = x",
        f"  {rest}[:, {place}] = {random.choice(('0', 'sin(x[:, t])'))}",
        f"  {y}[:, t] = {random.choice((f'sum({rest}, 1)', f'mean({rest}, 1) * x[:, t]'))}",
        f"x = {y}",
    )
    return ScanLines(lines, s)


def _stated(random: Random, number: int, shape: Shape, _label: Callable[[], str]) -> ScanLines:
    """A state that each iteration of training updates."""
    _, s, _ = shape
    state, y = f"state{number}", f"y{number}"
    lines = (
        f"state {state}: [] = {random.choice(('zeros', 'ones'))}",
        f"scan t in 0..{s}:",
        f"  {y}[:, t] = x[:, t] * {random.choice((state, f'tanh({state})'))}",
        "  if training:",
        f"    update {state} = 0.5 * {state} + 1",
        f"x = {y} + {state}",
    )
    return ScanLines(lines, s)


def _shared(random: Random, number: int, shape: Shape, label: Callable[[], str]) -> ScanLines:
    """One layer in the iterations, behind them, and within them again."""
    n, s, d = shape
    path = f"both{number}"
    layer = random.choice((f"linear({d})", "layer_norm", f"linear({d}, bias=false)"))
    h, y = f"h{number}", f"y{number}"
    label()
    lines = (
        f"layer {path}: {layer}",
        f"{h} = x[:, 0] |> {path}" if random.random() < 0.5 else f"{h} = zeros([{n}, {d}])",
        f"scan t in 0..{s}:",
        f"  {h} = tanh({h} |> {path}) + (x[:, t] |> {path})",
        f"  {y}[:, t] = {h}",
        f"x = {y} |> {path}{random.choice(('', '', '(frozen=true)', '(training=false)'))}",
    )
    return ScanLines(lines, s)


def _rare(random: Random, number: int, shape: Shape, label: Callable[[], str]) -> ScanLines:
    """Iterations of which there may be none: what is carried, and parts that are replaced."""
    n, s, d = shape
    h, y = f"h{number}", f"y{number}"
    start = random.choice((1, 2, 3))
    entry = random.choice(("x[:, t]", f"x[:, {s} - t]", f"mean(x[:, {start}:], 1)"))
    if random.random() < 0.3:
        entry = f"({entry} |> {label()}: linear({d}))"
    slope = f"grad(sum({h} * {h} * x[:, t]), {h})"
    lines = (
        f"{h} = {random.choice((f'zeros([{n}, {d}])', 'x[:, 0]', 'mean(x, 1)'))}",
        f"{y} = x",
        f"scan t in {start}..{s}{random.choice(('', '', _ending(random, h)))}:",
        f"  {h} = tanh({h} + {entry})",
        random.choice((f"  {h} = {h} - 0.1 * {slope}", f"  {h} = {h} / f32(t)")),
        random.choice(
            (f"  {y}[:, t] = {h}", f"  {y}[:, t] = {y}[:, t - 1] * {h}", f"  {y}[:, 0] = {h}")
        ),
        random.choice((f"x = {y} + mean({h})", f"x = {y} * insert_axis({h}, 1, {s})")),
    )
    return ScanLines(lines, s)
