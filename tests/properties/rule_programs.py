"""Random `optimizer` blocks, whose expressions mean the same in Python: NumPy computes them too."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from meganeura_dsl.ir.graph import Array

FUNCTIONS: dict[str, Callable[..., object]] = {
    "tanh": np.tanh,
    "sin": np.sin,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sum": np.sum,
    "where": np.where,
}
"""The functions that rules call, as NumPy has them."""
STATES = {"m": "[...s]", "v": "[...s]", "t": "[]"}


@dataclass(frozen=True)
class RandomRule:
    """A rule as text, and the arguments that a run gives it."""

    lines: tuple[str, ...]
    """Its body without declarations, in the words of both languages but for `update`."""
    states: tuple[str, ...]
    beta: float
    adds: bool

    @property
    def text(self) -> str:
        """The program."""
        declared = [f"state {name}: {STATES[name]} = zeros" for name in self.states]
        body = "".join(f"  {line}\n" for line in (*declared, *self.lines))
        head = "optimizer ours(lr: real, beta: real = 0.5, adds: bool = true)"
        return f"{head}(p: [...s], g: [...s]) -> [...s]:\n{body}"

    def steps(self, p: Array, gradients: list[Array], lr: float) -> dict[str, Array]:
        """The parameter and the states after these gradients, by NumPy in double precision."""
        kept = {name: np.zeros(p.shape if name != "t" else ()) for name in self.states}
        for g in gradients:
            given = {"p": p, "g": g, "lr": lr, "beta": self.beta, "adds": self.adds}
            names: dict[str, object] = {**FUNCTIONS, **given, **kept}
            for line in self.lines:
                name, _, value = line.removeprefix("update ").partition(" = ")
                if line.startswith("return "):
                    name, value = "p", line.removeprefix("return ")
                names[name] = eval(value, names)  # noqa: S307 - the text is ours
            p = np.asarray(names["p"])
            kept = {name: np.asarray(names[name]) for name in self.states}
        return {"p": p, **kept}


def random_rule(random: Random) -> RandomRule:
    """A rule of up to three states and some names between."""
    states = tuple(each for each in STATES if random.random() < 0.6)
    whole, scalars = ["p", "g"], ["lr", "beta"]
    lines: list[str] = []
    for name in random.sample(states, len(states)):
        if random.random() < 0.5:
            bound = f"d{len(lines)}"
            lines.append(f"{bound} = {_whole(random, whole, scalars, 2)}")
            whole.append(bound)
        known = scalars if name == "t" else whole
        value = _scalar(random, whole, scalars, 2) if name == "t" else _whole(
            random, [*whole, name], scalars, 2
        )  # fmt: skip
        lines.append(f"update {name} = beta * {name} + {value}")
        known.append(name)
    moved = " + ".join([_whole(random, whole, scalars, 2), *whole[2:], *scalars[2:]])
    lines.append(f"move = {moved} if adds else {_whole(random, whole, scalars, 1)}")
    lines.append("return p - lr * tanh(beta * move + g)")
    return RandomRule(tuple(lines), states, random.choice((0.25, 0.5)), random.random() < 0.7)


def _whole(random: Random, whole: list[str], scalars: list[str], depth: int) -> str:
    """An expression of the parameter's shape."""
    if depth == 0:
        return random.choice(whole)
    one, other = (_whole(random, whole, scalars, depth - 1) for _ in range(2))
    match random.randrange(6):
        case 0:
            return f"({one} {random.choice('+-*')} {other})"
        case 1:
            return f"{random.choice(('tanh', 'sin', 'abs'))}({one})"
        case 2:
            return f"{random.choice(('maximum', 'minimum'))}({one}, {other})"
        case 3:
            return f"where({one} > {other}, {one}, {random.choice(scalars)} * {other})"
        case 4:
            return f"tanh({_scalar(random, whole, scalars, depth - 1)}) * {one}"
        case _:
            return f"({one} * {random.choice(scalars)} - {random.choice(('0.5', '2'))} * {other})"


def _scalar(random: Random, whole: list[str], scalars: list[str], depth: int) -> str:
    """An expression of a scalar tensor."""
    if depth == 0:
        return f"(lr * {random.choice(scalars)})"
    other = _scalar(random, whole, scalars, depth - 1)
    return random.choice((f"sum({_whole(random, whole, scalars, depth - 1)})", f"(1 - {other})"))
