"""Reports on optimizing small models: the chosen rules, those that led to them, and the origins.

`reports.txt` has of each model and mode the counts and costs, each rule that was applied with the
lines it was applied at, and the result with the lines its values come from.

`python -m tests.dsl.transforms.egraph.reports` writes the file anew; read the difference before you
keep it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast
from zlib import crc32

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode

FILE = Path(__file__).with_suffix(".txt")
MODELS = {
    "convolutions": """\
block Net()(x: [n, 8, 12, 12]) -> [n, 8, 12, 12]:
  y = x |> a: conv2d(8, 3, pad=1) |> norm_a: batch_norm |> relu
  y = y |> b: conv2d(8, 3, pad=1) |> norm_b: batch_norm
  z = x |> c: conv2d(8, 1) |> norm_c: batch_norm
  return relu(x + y + z)
model net = Net()
""",
    "attention": """\
block Net()(x: [n, 8, 16]) -> [n, 8, 16]:
  q = x |> norm: layer_norm |> q: linear(16) |> rearrange([n, s, h * 8] -> [n, h, s, 8])
  y = attention(q, q, q) |> rearrange([n, h, s, d] -> [n, s, h * d])
  y = x + y
  return y + (y |> norm2: layer_norm |> up: linear(32) |> gelu |> down: linear(16))
model net = Net()
""",
    "chains": """\
block Net()(x: [n, 16]) -> [n, 16]:
  y = x |> a: linear(16) |> relu |> b: linear(16) |> tanh
  z = softmax(y * 2 + 0 * x, 1) * 1 + log(exp(x))
  return rearrange(rearrange(z / 4, [n, c] -> [c, n]), [c, n] -> [n, c]) - (x - x)
model net = Net()
""",
}
LISTS = ("chosen", "contributed")
MODES = ("infer", "forward", "train")


def described() -> Iterator[str]:
    """All lines of the file."""
    for name, text in MODELS.items():
        checked = pipeline.check(Source(f"{name}.mgn", text), lambda _: None)
        assert not checked.reports, checked.reports[0].headline
        graph = pipeline.elaborate_model(checked.program, sizes={"n": 2}).graph
        for mode in MODES:
            found = optimize(graph, mode=cast("Mode", mode))
            data = found.report.data()
            yield f"# {name}, {mode}: {data.pop('nodes_before')} to {data.pop('nodes_after')}"
            data.pop("seconds")
            for key, value in data.items():
                listed = cast("list[object]", value) if key in LISTS else [f"{key}: {value}"]
                yield from map(str, listed)
            for graph_ in (found.graph, found.load):
                yield f"{crc32(format_graph(graph_).encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
