"""Programs whose models are written as source of other systems, with sizes to run them at."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.pipeline import Program, loader_beside


def linked(text: str) -> Program:
    """A program, linked with the standard models."""
    sink = Sink()
    source = Source("case.mgn", dedent(text))
    module = Linker(loader_beside(Path("case.mgn")), sink).link(source)
    assert not sink.has_errors, sink.reports
    return Program(module)


PROGRAMS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "keys before the first query": (
        """\
        block Net(heads, length)(x: [n, s, 6]) -> [n, s, 6]:
          param before: [heads, length, 3] = normal(0.5)
          q = x |> q: linear(6) |> rearrange([n, s, heads * d] -> [n, heads, s, d])
          k = concat(insert_axis(before, 0, n), q, axis=2)
          y = attention(q, k, k, causal=true, offset=length)
          return y |> rearrange([n, heads, s, d] -> [n, s, heads * d])

        model net = Net(2, 3)
        """,
        {"n": 2, "s": 4},
    ),
    "parts of what an iteration binds": (
        """\
        block Sums()(x: [n, s, 3]) -> [n, s, 3]:
          h = x |> fc: linear(3)
          y = zeros([n, s, 3])
          scan t in 0..s:
            next = y
            next[:, t] = h[:, t] + sum(y, 1)
            y = next
          return y

        model net = Sums()
        """,
        {"n": 2, "s": 4},
    ),
    "results by name, in iterations": (
        """\
        block Agent(c)(x: [n, 3]) -> logits: [n, c], value: [n]:
          y = x |> fc: linear(c)
          return y, sum(y, 1)

        block Net(depth)(x: [n, 3]) -> y: [n, 3], value: [n]:
          layer again: Agent(3)
          out = x |> first: Agent(3)
          for i in 0..depth:
            out = out.logits |> layers[i]: Agent(3)
          scan t in 0..3:
            out = out.logits |> again
            v[:, t] = out.value
          return out.logits + (x |> again).logits, out.value + sum(v, 1)

        model net = Net(2)
        """,
        {"n": 2},
    ),
    "names that Python keeps, and names with numbers": (
        """\
        block Net(layers)(x: [n, 1, 4]) -> [n, 1, 3]:
          for i in 0..layers:
            x = x |> n{i}: conv1d(1, 3, pad=1) |> d{i}: linear(4, frozen=true)
          return x |> class: linear(3)

        model net = Net(2)
        """,
        {"n": 2},
    ),
    "neighbours and what differs": (
        """\
        block Edge(out, k)(x: [n, p, d]) -> [n, p, out]
            where k <= p:
          _v, near = top_k(x[:, :, 0] |> insert_axis(1, p), k)
          other = gather(x, near, axis=1, batch=1)
          own = insert_axis(x, 2, k)
          return concat(own, other - own, axis=3) |> fc: linear(out) |> max(2)

        block Net()(x: [n, p, 3]) -> [n, 4]
            where p >= 2:
          return x |> e1: Edge(5, 2) |> e2: Edge(6, 2) |> max(1) |> fc: linear(4)

        model net = Net()
        """,
        {"n": 2, "p": 4},
    ),
    "a scan that a condition ends": (
        """\
        block Root()(x: [n, 4]) -> [n, 4]:
          y = abs(x |> fc: linear(4)) + 0.1
          r = y
          scan t in 0..20 while max(abs(r * r - y)) > 1e-4:
            r = 0.5 * (r + y / r)
          return r

        model net = Root()
        """,
        {"n": 3},
    ),
    "statistics of groups, and paths that are left out": (
        """\
        block Net(groups)(x: [n, 3, h, w]) -> [n, 4, h, w]
            where n % groups == 0:
          y = x |> conv: conv2d(4, 3, pad=1, bias=false) |> bn: ghost_batch_norm(groups) |> relu
          return y + (y |> drop_path(0.0))

        model net = Net(2)
        """,
        {"n": 4, "h": 3, "w": 2},
    ),
    "a scan from its end": (
        """\
        block Net(d)(x: [n, s, 3]) -> [n, s, d], [n, s - 1, 3]
            where s >= 2:
          h = zeros([n, d])
          scan t in 0..s:
            at = s - 1 - t
            h = tanh((x[:, at] |> input: linear(d)) + (h |> cell: linear(d)))
            y[:, at] = h
          scan t in 1..s:
            steps[:, t - 1] = x[:, t] - x[:, t - 1]
          return y, steps

        model net = Net(d=4)
        """,
        {"n": 2, "s": 5},
    ),
    "the largest and the smallest of groups": (
        """\
        block Net(v)(x: [n, s, 3], group: i32[n, s], key: i32[n]) -> [v, 3], [v]
            where 0 <= group, group < v, 0 <= key, key < v:
          top = scatter_max(group, x |> fc: linear(3), v, empty=-1.5)
          return top, scatter_min(key, mean(mean(x, 2), 1), v, empty=0.5)

        model net = Net(v=12)
        """,
        {"n": 2, "s": 3},
    ),
    "tensors that are read twice, beside locals of the same names": (
        """\
        block Net()(x: [n, p, 4], near: i32[n, k]) -> [n, k, 4], [40, p, 4], [40, p, 4]
            where 0 <= near, near < p, 1 <= n, n <= 40:
          table = x |> fc: linear(4)
          near_by = gather(table * 2, near, axis=1, batch=1)
          updates = 0.5 * x
          total = scatter_add(iota(n), updates + 1, 40) - scatter_add(iota(n), x * x, 40)
          largest = scatter_max(iota(n), x + 2, 40, empty=0.0)
          return near_by + gather(table, near, axis=1, batch=1), total + sum(updates), largest

        model net = Net()
        """,
        {"n": 2, "p": 12, "k": 3},
    ),
    "blocks that are called as what the file uses, and a local as a function": (
        """\
        block main()(x: [n, 4]) -> [n, 4]:
          return 2 * x

        block zip()(x: [n, 4]) -> [n, 4]:
          return 3 * x

        block centred()(x: [...a, d]) -> [...a, d]:
          return x - (mean(x, -1) |> expand([...a] -> [...a, d]))

        block Net()(x: [n, s, 4], y: [n, 4]) -> [n, s, 4], [n, 4]:
          centred2 = centred(y)
          z = centred(x |> fc: linear(4))
          return z, centred2 |> main |> zip

        model net = Net()
        """,
        {"n": 2, "s": 3},
    ),
    "layers that are called as methods of lists and dictionaries": (
        """\
        block Net(items, layers)(x: [n, 4]) -> [n, 4]:
          param update: [4] = normal(1.0)
          for i in 0..layers:
            x = x |> blocks[i].pop: linear(4) |> blocks[i].append: layer_norm
          return (x |> keys: linear(4)) * (x |> values: linear(4)) + items * update

        model net = Net(0.5, 2)
        """,
        {"n": 3},
    ),
    "layers that differ by their path alone, on the sides of a choice": (
        """\
        block Net(layers, deep)(x: [n, 4]) -> [n, 4]:
          for i in 0..layers:
            if i % 2 == 0 and deep:
              x = x |> even[i]: linear(4)
            else:
              x = x |> odd[i]: linear(4) |> tanh
          return x

        model net = Net(4, true)
        """,
        {"n": 3},
    ),
    "a number of rows that a block is told": (
        """\
        block Part(rows)(x: [n, d]) -> [n, d]:
          return (x |> fc: linear(d)) / rows

        block Net()(x: [n, s, 4]) -> [n, s, 4]:
          return rearrange(x, [n, s, d] -> [n * s, d]) |> part: Part(n * s)
                 |> rearrange([n * s, d] -> [n, s, d])

        model net = Net()
        """,
        {"n": 2, "s": 3},
    ),
    "what is put into a list that a loop fills": (
        """\
        block Layer()(x: [n, d]) -> [n, d]:
          return x |> fc: linear(d) |> tanh

        block Net(layers)(x: [n, 4]) -> [n, 4]:
          y = x |> block[0].extra: linear(4)
          for i in 0..layers:
            x = x |> block[i]: Layer
          return x + y

        model net = Net(2)
        """,
        {"n": 3},
    ),
    "a width that loops and choices change": (
        """\
        block Grow(by)(x: [n, c]) -> [n, c + by]:
          return concat(x, x |> more: linear(by), axis=1)

        block Net(parts, d)(x: [n, 3]) -> [n, 2]:
          x = x |> first: linear(d)
          for i in 0..len(parts):
            for j in 0..2:
              x = x |> grow[i][j]: Grow(parts[i]) |> relu
            if i < 1:
              x = x |> halves[i]: linear(d) |> norms[i]: layer_norm
          y = x |> norm: layer_norm
          return y |> last: linear(2)

        model net = Net([2, 3], 4)
        """,
        {"n": 4},
    ),
    "a layer below another one that is made behind it": (
        """\
        block Twice()(x: [n, c]) -> [n, 2 * c]:
          return x |> fc: linear(2 * c)

        block Net(layers)(x: [n, 3]) -> [n, 2]:
          for i in 0..layers:
            if i > 0:
              x = x |> parts[i].before: Twice
            x = x |> parts[i]: Twice |> tanh
          return x |> last: linear(2)

        model net = Net(3)
        """,
        {"n": 4},
    ),
    "axes that both sides of an operator repeat": (
        """\
        block Net()(x: [n, c], y: [n, d]) -> [n, c, d], [n, c, d]:
          a = insert_axis(x, 2, d)
          b = insert_axis(y, 1, c)
          param scale: [] = 2.0
          return a * b * scale, insert_axis(x, 2, d) - insert_axis(y, 1, c)

        model net = Net()
        """,
        {"n": 2, "c": 3, "d": 4},
    ),
    "a loop of layers and a choice": (
        """\
        block Net(layers, width, skip=true)(x: [n, 6]) -> [n, 3]:
          h = x |> first: linear(width)
          for i in 0..layers:
            y = h |> blocks[i]: linear(width) |> tanh
            if skip:
              h = h + y
            else:
              h = y
          return h |> last: linear(3)

        model net = Net(layers=3, width=5)
        """,
        {"n": 4},
    ),
    "a choice by a shape within another one": (
        """\
        block Act()(x: [n, d]) -> [n, d]:
          if size(x, 1) > 4:
            if d > 8:
              y = relu(x)
            else:
              y = tanh(x)
          else:
            y = sigmoid(x)
          return y

        block Net()(x: [n, 4]) -> [n, 16]:
          return x |> Act |> a: linear(8) |> Act |> b: linear(16) |> Act

        model net = Net()
        """,
        {"n": 3},
    ),
    "several results, parts and reductions": (
        """\
        block Net()(x: [n, 6]) -> [n, 3], [n], [6]:
          a = x[:, 3:] * x[:, :3]
          return a |> fc: linear(3), sum(x, 1), mean(x * x, 0)

        model net = Net()
        """,
        {"n": 3},
    ),
    "axes moved and merged": (
        """\
        block Net(heads)(x: [n, s, 6]) -> [n, s, 6]:
          q = x |> q: linear(6) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
          a = softmax(q @ rearrange(q, [n, h, s, e] -> [n, h, e, s]), -1)
          return rearrange(a @ q, [n, h, s, e] -> [n, s, h * e])

        model net = Net(heads=2)
        """,
        {"n": 2, "s": 5},
    ),
    "a parameter and a state": (
        """\
        block Net()(x: [n, 4]) -> [n, 4]:
          param scale: [4] = ones
          state seen: [4] = zeros
          if training:
            update seen = 0.9 * seen + 0.1 * mean(x, 0)
          return x * scale - seen

        model net = Net()
        """,
        {"n": 3},
    ),
    "words, positions and order": (
        """\
        block Net(d)(ids: i32[n, s]) -> [n, s, d]:
          x = ids |> words: embedding(11, d)
          near = expand(iota(s), [s] -> [n, s, d]) < 2
          ordered, _ = sort(where(near, x, 2 * x), 1)
          return ordered

        model net = Net(d=4)
        """,
        {"n": 2, "s": 5},
    ),
    "a scan": (
        """\
        block Net(d)(x: [n, s, 3]) -> [n, s, d]:
          h = zeros([n, d])
          scan t in 0..s:
            h = tanh((x[:, t] |> input: linear(d)) + (h |> cell: linear(d)))
            y[:, t] = h
          return y

        model net = Net(d=4)
        """,
        {"n": 2, "s": 5},
    ),
}
"""The text of each, in which the model is `net`, and its sizes."""
