"""`check` says once what is wrong with an optimizer that a program declares."""

from pathlib import Path

import pytest

from meganeura.cli.driver.checked_target import check_target

PROGRAM = """\
optimizer mine(lr: real)(p: [...s], g: [...s]) -> [...s]:
  {body}
  return p - lr * g

block Net()(x: [n, 4]) -> [n, 2] = x |> fc: linear(2)
model net = Net()
train fit(x: [batch, 4], y: i32[batch]):
  minimize cross_entropy(x |> net, y)
  run:
    data = "rows.npz"
    batch = 8
    optimizer = mine(lr=0.1)
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("state m: [...s] = zeros", "E0597"),
        ("g = g |> fc: linear(3)", "E0596"),
        ("g = g / size(g, 0, 1)", "E0202"),
        ("minimize sum(g)", "E0124"),
    ],
)
def test_a_wrong_rule_is_reported_where_it_is_written(tmp_path: Path, body: str, code: str) -> None:
    file = tmp_path / "program.mgn"
    file.write_text(PROGRAM.format(body=body))
    assert [each.code for each in check_target(str(file)).errors] == [code]
