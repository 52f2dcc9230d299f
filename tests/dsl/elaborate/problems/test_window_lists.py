"""A layer of square windows that is given a list names the function that takes one."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, elaborate_model

NET = """\
block Net()({x}: [n, 4, {axes}]){results}:
{body}
model net = Net()
"""


def program(body: str, axes: str, x: str = "x", results: str = "") -> str:
    return NET.format(x=x, axes=axes, body=body, results=results)


def cure_of(layer: str, axes: str, x: str = "x") -> str:
    text = program(f"  return {x} |> {layer}", axes, x)
    (report, *_) = check(Source("net.mgn", text), lambda _: None).reports
    assert report.code == "E0203"
    assert report.help is not None
    assert report.help.code is not None
    return report.help.code


@pytest.mark.parametrize(
    ("layer", "result", "weight"),
    [
        ("c: conv2d(8, [3, 1], pad=[1, 0])", "8, 16, 16", (8, 4, 3, 1)),
        ("c: conv2d(8, 3, stride=[2, 1], pad=1)", "8, 8, 16", (8, 4, 3, 3)),
        ("c: conv2d(8, 3, [2, 1], 1, groups=2)", "8, 8, 16", (8, 2, 3, 3)),
        ("c: conv2d(c=8, k=[1, 5], groups=2 * 2)", "8, 16, 12", (8, 1, 1, 5)),
        ("c: conv2d(8, 3, dilation=[1, 2], bias=false)", "8, 14, 12", (8, 4, 3, 3)),
        ("c: conv3d(8, [1, 3, 3])", "8, 16, 14, 14", (8, 4, 1, 3, 3)),
        ("c[0]: conv1d(8, 3, stride=[2, 2, 1])", "", ()),
    ],
)
def test_the_form_of_a_convolution(layer: str, result: str, weight: tuple[int, ...]) -> None:
    axes = ", ".join(["16"] * next(n for n in (1, 2, 3) if f"conv{n}d" in layer))
    cure = cure_of(layer, axes, "seen")
    if not result:
        assert cure.startswith("param c[0].weight: [8, size(seen, 1), 3] = ")
        return
    body = "".join(f"  {line}\n" for line in cure.split("\n")) + "  return y"
    checked = check(
        Source("net.mgn", program(body, axes, "seen", f" -> [n, {result}]")), lambda _: None
    )
    assert checked.fine, [report.headline for report in checked.reports]
    held = {
        each.name: each.type.shape for each in elaborate_model(checked.program, "net").parameters
    }
    bias = {} if "bias=false" in layer else {"c.bias": (8,)}
    assert held == {"c.weight": weight, **bias}


@pytest.mark.parametrize(
    ("layer", "result"),
    [
        ("max_pool([2, 1])", "4, 8, 16"),
        ("max_pool([3, 1], [2, 1], pad=[1, 0])", "4, 8, 16"),
        ("avg_pool([2, 4])", "4, 8, 4"),
        ("avg_pool(k=2, stride=[2, 1])", ""),
    ],
)
def test_the_form_of_a_pool(layer: str, result: str) -> None:
    text = program(f"  return x |> {layer}", "16, 16")
    (report, *_) = check(Source("net.mgn", text), lambda _: None).reports
    if not result:
        assert (report.code, report.help) == ("E0203", None)
        return
    body = f"  return {cure_of(layer, '16, 16')}"
    checked = check(
        Source("net.mgn", program(body, "16, 16", results=f" -> [n, {result}]")), lambda _: None
    )
    assert checked.fine, [report.headline for report in checked.reports]


def test_a_list_of_one_number_is_the_number() -> None:
    assert cure_of("c: conv2d(8, [3, 3])", "16, 16") == "k=3"
    assert cure_of("c: conv2d(8, 3, stride=[2, 2])", "16, 16") == "stride=2"
