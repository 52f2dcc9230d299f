"""Cases of blocks that are drawn for a check of their gradients, in a line each.

`drawn.txt` has of each block and model what its configuration can be, and some cases, by their
seeds: the configuration, sizes that are no part of it, inputs, whether it trains, and a checksum of
the numbers it is fed.

`python -m tests.dsl.gradcheck.drawn` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.gradcheck.cases import choose_case
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs, indices_of
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.stated_numbers import stated_numbers
from meganeura_dsl.gradcheck.subjects import Subject, subjects

FILE = Path(__file__).with_suffix(".txt")
SEEDS = range(6)
PROGRAM = """\
block Fields(a, b: bool = true, kind: "max" or "sum" = "max", rate = 0.25, axis: int = -1)
    (x: [n, c]) -> [n, c]:
  if a:
    x = x * rate
  if b:
    x = softmax(x, axis)
  return x

block Passes(first, second, wide)(x: [n, c]) -> [n, c]:
  y = x |> Fields(second, kind="sum") |> one: linear(c)
  return y |> Fields(kind="max", b=false, a=first) |> wide: linear(c * wide) |> last: linear(c)

block Within(deep, width)(x: [n, c]) -> [n, width]:
  return x |> Passes(deep, wide=2, second=deep) |> end: linear(width)

block Rows(rows: list = [[2, 1], [4, 2], [3, 1]], scales: list = [1, 2], widths = [4, 6])
    (x: [n, 3]) -> [n, 3] where len(rows) == len(scales):
  for i in 0..len(rows):
    y = x |> fc[i]: linear(rows[i][0])
    x = x + sum(y) * scales[i]
  return x + widths[0]

block Halves(groups)(x: [n, c, 2 * h]) -> [n, c // groups, h] where c % groups == 0, c >= groups:
  y = rearrange(x, [n, g * groups, h * 2] -> [n, g, groups, h, 2])
  return sum(sum(y, 4), 2)

block Table(v)(id: i32[n], seen: bool[n], w: [v, 2], u: [k, 2]) -> [n, 2]:
  return where(insert_axis(seen, 1, 2), gather(w, id), gather(u, id))

block Flat()(x: [n, h, 2], row: i32[m], any: i32[m], least: i32[]) -> [m, 2]
    where 0 <= row, row < n, -2 <= least, least < 3:
  y = rearrange(x, [n, h, d] -> [n * h, d])
  return gather(y, row * h) + gather(y, any * h) * f32(least)

block Any(scale, small = 0.5)(x: [...shape]) -> [...shape]:
  return x * scale + small

block Kinds(on: bool, by: size, text: text)(x: [n, c]) -> [n, c]:
  return x / by if on else x

block Same()(first: any[n, c], second: any[...shape]) -> [n, c]:
  return where(first > 0, f32(first), 1)

block Wide(width: int, depth = 2, factor)(x: [n, width]) -> [n, width]:
  for i in 0..depth:
    x = x |> fc[i]: linear(width) |> back[i]: linear(width) |> tanh
  return x * factor

model small = Wide(width=3, depth=1, factor=0.75)
model large = Wide(width=520, depth=1, factor=0.5)
model kept = Rows(rows=[[1, 1]], scales=[7])
"""


def module_of(text: str) -> LinkedModule:
    """A program that is taken as it stands."""
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("drawn.mgn", text))
    assert not sink.has_errors, [each.headline for each in sink.reports]
    return module


def described() -> Iterator[str]:
    """All lines of the file."""
    for subject in subjects(module_of(PROGRAM)):
        yield f"# {subject.name}: {_fields(subject)}"
        yield from (f"{seed} {_case(subject, seed)}" for seed in SEEDS)


def _fields(subject: Subject) -> str:
    known = {
        "given": subject.given, "truths": sorted(subject.truths), "lists": subject.lists,
        "tables": subject.tables, "reals": sorted(subject.reals),
    }  # fmt: skip
    return ", ".join(f"{name} {value}" for name, value in known.items() if value)


def _case(subject: Subject, seed: int) -> str:
    try:
        case = choose_case(Random(seed).choice, subject)
    except DeadEndError as error:
        return f"leads nowhere: {error}"
    inputs = ", ".join(f"{name}: {type_}" for name, type_ in case.inputs)
    mode = "training" if case.training else "evaluating"
    said = f"{case.snippet} {dict(case.sizes)} ({inputs}) {mode} {case.seed}"
    try:
        elaboration = case.elaborate()
    except (ProblemError, UndecidableError) as error:
        return f"{said}: {error.summary if isinstance(error, ProblemError) else error}"
    graph = elaboration.graph
    indices = indices_of(graph, stated=stated_numbers(elaboration))
    sums: list[str] = []
    for distribution in InputDistribution:
        fed = RandomInputs(case.seed, distribution).feeds(graph, indices)
        numbers = [
            (name, np.round(np.asarray(array, np.float64), 6).tolist())
            for name, array in sorted(fed.items())
        ]
        sums.append(f"{crc32(str(numbers).encode()):08x}")
    return f"{said} {dict(indices.allowed)} {' '.join(sums)}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
