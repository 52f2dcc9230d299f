"""A declaration that cannot be read costs one report, and its neighbours none."""

from pathlib import Path

import pytest

from meganeura_dsl.pipeline import check_file
from meganeura_dsl.resources import standard_models

BROKEN = "block Flow(k)(x: [n, 2]) -> [n, 2]:\n  y = x +\n  return y\n"
TAKER = "block A(b: block)(x: [n, 2]) -> [n, 2] = b(x)\n"


def codes(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.mgn").write_text(text)
    return [each.code for each in check_file(str(folder / "net.mgn")).reports]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BROKEN}model net = Flow(3)\n", ["E0129"]),
        (f"{BROKEN}model net = Flow(3)\nexpect net has 2 params\n", ["E0129"]),
        (f"{BROKEN}train t(x: [n, 2]):\n  minimize mean(x |> a: Flow(3))\n", ["E0129"]),
        (f"{BROKEN}block A(b=Flow)(x: [n, 2]) -> [n, 2] = b(3)(x)\n", ["E0129"]),
        (f"{BROKEN}{TAKER}block B()(x: [n, 2]) -> [n, 2] = A(Flow(3))(x)\n", ["E0129", "N0001"]),
        ("def f(x) = x +\nblock A()(x: [n, d]) -> [n, d] = x * f(3)\n", ["E0129"]),
        ("model net = relu(\nexpect net has 0 params\n", ["E0104"]),
        (f"{BROKEN}model net = Flaw(3)\n", ["E0129", "E0201"]),
        ("from nowhere import Flow\nmodel net = Flow(3)\n", ["E0211"]),
        ("from nn import Flow\nmodel net = Flow(3)\n", ["E0212"]),
        ("from other import Flow\nmodel net = Flow(3)\n", ["E0129"]),
    ],
)  # fmt: skip
def test_what_uses_it_is_not_told(text: str, expected: list[str], tmp_path: Path) -> None:
    assert codes(tmp_path, net=text, other=BROKEN) == expected


@pytest.mark.parametrize("file", ["digits_cnn", "gan", "resnet", "recurrent"])
def test_one_line_that_is_cut_is_one_report(file: str, tmp_path: Path) -> None:
    lines = (standard_models() / f"{file}.mgn").read_text().splitlines()
    ends = [at for at, line in enumerate(lines) if line.startswith("  return ")]
    assert len(ends) >= 2
    for at in ends:
        cut = [*lines[:at], f"{lines[at]} +", *lines[at + 1 :]]
        found = [code for code in codes(tmp_path, net="\n".join(cut) + "\n") if code[0] == "E"]
        assert found in (["E0129"], ["E0101"], ["E0140"]), lines[at]


def test_a_model_is_not_offered_itself(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text("model flow = Flow(3)\n")
    (found,) = check_file(str(tmp_path / "net.mgn")).reports
    assert (found.code, found.help) == ("E0201", None)


def test_the_example_of_a_block_that_takes_a_block_is_proved(tmp_path: Path) -> None:
    text = "block A(b: block)(x: [n, d]) -> [n, d] = x |> b\n"
    (tmp_path / "net.mgn").write_text(text)
    (found,) = check_file(str(tmp_path / "net.mgn")).reports
    assert found.code == "E0404"
    assert found.help is not None
    assert codes(tmp_path, net=f"{text}\n{found.help.code}\n") == ["N0001"]
