"""A name that is bound before a scan is carried by its iterations, wherever they read or bind it.

The bodies below are valid Python as well: NumPy runs their lines iteration after iteration.
"""

from collections.abc import Iterable, Mapping
from random import Random
from textwrap import indent

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.testing import assert_gradients
from tests.effort import effort
from tests.folded import each_of

X = np.random.default_rng(3).normal(size=(2, 4, 3)).astype(np.float32)
ROUNDS = {
    "a name that is bound anew and never read": "h = x[:, t]",
    "the same, while the iterations collect": "h = x[:, t]; y[:, t] = h",
    "a name that is read after it was bound anew": "h = 2 * x[:, t]; h = h + 1",
    "each slice, once": "y[:, t] = h * x[:, t]",
    "each slice, from the last to the first": "y[:, s - 1 - t] = x[:, t]",
    "each slice, twice": "y[:, t] = x[:, t]; y[:, s - 1 - t] = 2 * x[:, t]",
    "a slice that is read again": "y[:, t] = x[:, t]; h = h + y[:, t]",
    "a slice that was written before": "y[:, t] = y[:, s - 1 - t] + x[:, t]",
    "a part of a slice": "y[:, t, 1:] = 2 * x[:, t, 1:]",
    "an entry": "y[0, t, 2] = 7",
    "a range of slices": "y[:, t:t + 1] = 3 * x[:, t:t + 1]",
    "a number in each slice": "y[:, t] = 2",
    "a whole that is bound anew behind a slice": "y[:, t] = h; y = y + 1",
    "the same slice in all iterations": "y[:, 1] = x[:, t]",
    "two parts in two iterations": "y[:, t] = h; h = 2 * h; w[:, t] = h + w[:, 0]",
}
SHORT = {
    "the first slice is left": ("1", "s", "y[:, t] = x[:, t]"),
    "slices are shifted": ("1", "s", "y[:, t - 1] = x[:, t]"),
    "the last slice is left": ("0", "s - 1", "y[:, t] = y[:, t] + x[:, t + 1]"),
    "one iteration": ("2", "3", "y[:, t] = x[:, t]; h = x[:, t]"),
}
CASES = {
    **{name: ("0", "s", body) for name, body in ROUNDS.items()},
    **SHORT,
}


@pytest.mark.parametrize("name", CASES)
def test_a_name_from_before_the_scan_is_what_the_iterations_leave(name: str) -> None:
    start, stop, body = CASES[name]
    text = _program(f"  scan t in {start}..{stop}:\n    {_lines(body)}\n")
    wanted = _in_python(body, range(eval(start), eval(stop, {"s": 4})))  # noqa: S307
    _assert_gives(text, wanted)


LINES = (
    "h = x[:, t]", "h = h + x[:, t]", "h = 2 * y[:, t]", "h = w[:, t] - h",
    "k = x[:, t]; h = 2 * k",
    "y[:, t] = h", "y[:, s - 1 - t] = x[:, t] + h", "y[:, t] = y[:, s - 1 - t]", "y[:, t] = 2",
    "y[:, t:t + 1] = w[:, t:t + 1]", "y = y + 1", "w = y", "w[:, t] = 3 * h", "w[0, t] = h[1]",
    "w[:, t, 1:] = x[:, t, 1:]", "w[:, 1] = x[:, t]", "w[1] = y[0]", "x = x + 0.5",
)  # fmt: skip


@each_of("seed", range(effort(60, 5000)))
def test_random_iterations_leave_what_python_s_do(seed: int) -> None:
    generator = Random(seed)
    body = "; ".join(generator.choices(LINES, k=generator.randint(1, 5)))
    start, stop = generator.choice([("0", "s"), ("1", "s"), ("0", "s - 1")])
    iterations = [*range(int(start), 4 if stop == "s" else 3)]
    text = f"  scan t in {start}..{stop}:\n    {_lines(body)}\n"
    if generator.random() < 0.25:
        text, iterations = f"  scan _u in 0..2:\n{indent(text, '  ')}", iterations * 2
    found = _values(_program(text))
    wanted = _in_python(body, iterations)
    for name in "hyw":
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, err_msg=f"{name}: {body}")


def test_iterations_that_while_leaves_out_leave_names_as_they_are() -> None:
    body = "h = x[:, t]; y[:, t] = h; w[:, t, :1] = 5"
    text = _program(f"  scan t in 0..s while all(y[:, 2] == x[:, 2]):\n    {_lines(body)}\n")
    _assert_gives(text.replace("y = x + 1", "y = x"), _in_python(body, range(4), y=X.copy()))
    _assert_gives(text, _in_python(body, range(0)))


def test_parts_are_replaced_in_iterations_within_iterations() -> None:
    text = _program(
        "  scan t in 0..s:\n    h = x[:, t]\n    scan u in 0..s:\n"
        "      y[:, u] = y[:, u] + h\n      w[0, t] = y[1, u]\n"
    )
    names = _before()
    for t in range(4):
        names["h"] = X[:, t]
        for u in range(4):
            names["y"][:, u] += names["h"]
            names["w"][0, t] = names["y"][1, u]
    _assert_gives(text, names)


def test_what_an_iteration_binds_to_another_type_is_its_own() -> None:
    """A name from before that an iteration binds to something else leaves other values alone."""
    text = _program("  h = x[:, 0, 0]\n  scan t in 0..s:\n    h = x[:, t]\n    y[:, t] = h\n")
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    (report,) = result.reports
    assert report.label is not None
    assert report.headline == "`h` belonged to the iterations of a scan"
    assert report.label.text == "it is f32[n] before the scan, and f32[n, d] in each iteration"


@pytest.mark.parametrize(
    ("before", "is_fine"),
    [
        ("x", True),
        ("zeros([n, s, d])", True),
        ("zeros([n, s + 1, d])", True),
        ("zeros([n, s, 2 * d])", False),
        ("zeros([n, d, s])", False),
        ("i32(x)", False),
        ("f16(x)", False),
        ("zeros([n, s, d, 1])", False),
        ("zeros([n, s])", False),
        ("zeros([1, s, d])", False),
    ],
)
def test_a_slice_has_the_type_of_what_it_replaces(before: str, is_fine: bool) -> None:  # noqa: FBT001
    text = f"block Net()(x: [n, s, d]) -> []:\n  y = {before}\n"
    text += "  scan t in 0..s:\n    y[:, t] = x[:, t]\n  return sum(f32(y))\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine == is_fine
    if not is_fine:
        assert result.reports[0].headline == "`y[...]` is given another shape than it has"


ENDS_BEFORE = "scan t in 0..s - 1"


@pytest.mark.parametrize(
    ("iterations", "code", "label", "cure"),
    [
        ("y[:, t + 1] = x[:, t]", "E0315", "is entry t + 1, and axis 1 has s", ENDS_BEFORE),
        ("y[:, t:t + 2] = x[:, :2]", "E0315", "is from t to t + 2, and axis 1 has s", ENDS_BEFORE),
        ("z[:, t] = z[:, 0] + x[:, t]", "E0201", "no iteration finds", "z = zeros([...])"),
    ],
)
def test_what_no_iteration_finds_is_refused(
    iterations: str, code: str, label: str, cure: str | None
) -> None:
    """The advice is about iterations: no `where` may state anything of the index."""
    text = _program(f"  scan t in 0..s:\n    {iterations}\n")
    (report,) = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert report.label is not None
    assert report.code == code
    assert label in report.label.text
    assert (report.help and report.help.code) == cure
    if cure == ENDS_BEFORE:
        assert pipeline.check(
            Source("net.mgn", text.replace("scan t in 0..s", cure)), lambda _: None
        ).fine


def test_what_is_written_whole_and_not_read_costs_no_copy_in_each_iteration() -> None:
    text = _program("  scan t in 0..s:\n    y[:, t] = x[:, t]\n")
    assert "scatter" not in format_graph(_graph(text)).lower()


@each_of("at", ["t", "s - 1 - t"])
def test_slices_that_are_written_one_after_another_are_not_reversed(at: str) -> None:
    text = _program(f"  scan t in 0..s:\n    y[:, {at}] = h * x[:, {at}]\n")
    assert "reverse" not in format_graph(_graph(text)).lower()


def _program(iterations: str) -> str:
    before = "  h = x[:, 0]\n  y = x + 1\n  w = 2 * x\n"
    return (
        "block Net()(x: [n, s, d]) -> [n, d], [n, s, d], [n, s, d]\n"
        "    where n >= 2, s >= 3, d >= 3:\n"
        f"{before}{iterations}  return h, y, w\n\nmodel net = Net()\n"
    )


def _lines(body: str) -> str:
    return body.replace("; ", "\n    ")


def _before() -> dict[str, np.ndarray]:
    return {"h": X[:, 0].copy(), "y": X + 1, "w": 2 * X}


def _in_python(
    body: str, iterations: Iterable[int], **changed: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns the names after Python has run the lines of an iteration for each index."""
    names: dict[str, np.ndarray] = {**_before(), **changed, "x": X}
    for t in iterations:
        for line in body.split("; "):
            exec(line, {"t": t, "s": 4}, names)  # noqa: S102
            names = {name: value.copy() for name, value in names.items()}
    return names


def _graph(text: str) -> Graph:
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine, [report.headline for report in result.reports]
    return pipeline.elaborate_model(result.program, "net", sizes={"n": 2, "s": 4, "d": 3}).graph


def _values(text: str) -> dict[str, Array]:
    return dict(zip("hyw", evaluate(_graph(text), {"x": X}).outputs.values(), strict=True))


def _assert_gives(text: str, wanted: Mapping[str, np.ndarray]) -> None:
    for name, value in _values(text).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-6, err_msg=name)
    assert_gradients(_graph(text))
