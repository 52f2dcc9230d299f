"""An importer of another package: what it reads is proved and compared before it is written."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.cli.command import Command
from tests.distributions import install

LAYERS = [[[0.5, -1.0], [2.0, 0.25], [1.0, 1.0]], [[1.0, -0.5, 2.0]]]
MODEL = {"layers": LAYERS, "input": [3.0, 1.0], "output": [5.375]}


def says(shown: str) -> str:
    return " ".join(shown.split())


def written(record: object, name: str = "net.mlp") -> str:
    Path(name).write_text(json.dumps(record))
    return name


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("name", ["net.mlp", "NET.MLP"])
def test_a_file_of_its_suffix_becomes_a_program(name: str, meganeura: Command) -> None:
    shown = meganeura("import", written(MODEL, name), "-o", "net.mgn")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "largest difference of an output: 0 at n=1",
        "trained: 2 parameters",
        "written: net.mgn and net.safetensors",
    ]
    line = "return x |> layer0: linear(3, bias=false) |> relu |> layer1: linear(1, bias=false)"
    assert line in Path("net.mgn").read_text()
    weights = load_file("net.safetensors")
    for at, matrix in enumerate(LAYERS):
        np.testing.assert_array_equal(weights[f"layer{at}.weight"], np.array(matrix, np.float32))
    assert meganeura("check", "net.mgn").code == 0
    assert meganeura("weights", "check", "net.mgn", "net.safetensors").code == 0


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    ("record", "options", "message"),
    [
        (
            {"weights": LAYERS},
            (),
            "error[E0530]: cannot read `net.mlp` (files) because it has no `layers`",
        ),
        (MODEL, ("--set", "n=2"), "because it has no open sizes"),
        (
            MODEL | {"output": [5.0]},
            (),
            (
                "the importer `mlp` of `meganeura-example 1.0` cannot be used (plugin) because the "
                "program that it made of `net.mlp` differs by 0.075 from its example in `output`, "
                "and 0.0001 is allowed"
            ),
        ),
        (
            {"layers": [[["a"]]], "input": [], "output": []},
            (),
            "error[E0530]: cannot read `net.mlp` (files) because could not convert string to float",
        ),
        (
            {"layers": LAYERS},
            (),
            "because KeyError: 'input' (importer.py:38), when it read `net.mlp`",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_written(
    record: object, options: tuple[str, ...], message: str, meganeura: Command
) -> None:
    shown = meganeura("import", written(record), "-o", "net.mgn", *options)
    assert shown.code == 1
    assert message in says(shown.err)
    assert not Path("net.mgn").exists()
    assert not Path("net.safetensors").exists()


@pytest.mark.usefixtures("example")
def test_a_suffix_that_is_not_known_lists_those_that_are(meganeura: Command) -> None:
    shown = meganeura("import", written(MODEL, "net.mpl"), "-o", "net.mgn")
    assert shown.code == 1
    assert "error[E0640]: cannot read `net.mpl` as ONNX" in shown.err
    assert "the suffixes that are read are .onnx, .gguf, .mlp" in says(shown.err)
    shown = meganeura("import", "none.mlp", "-o", "net.mgn")
    assert "error[E0533]: there is no `none.mlp`" in shown.err


@pytest.mark.usefixtures("example")
def test_a_file_that_the_system_does_not_give_is_no_mistake_of_the_importer(
    meganeura: Command,
) -> None:
    Path("net.mlp").mkdir()
    shown = meganeura("import", "net.mlp", "-o", "net.mgn")
    assert shown.code == 1
    assert "error[E0530]: cannot read `net.mlp` (files) because Is a directory" in says(shown.err)


HEAD = """\
import numpy as np
from meganeura_runtime.importing.importers import ExampleRun, Importer, ReadModel

class Mine(Importer):
    suffix = "mine"

    def read(self, path, sizes):
"""
BLOCK = r"block Net()(x: [n, 2]) -> [n, 3]:\n  return x |> fc: linear(3)\n"
PROGRAM = rf"{BLOCK}\nmodel net = Net()\n"
WEIGHTS = "{'fc.weight': np.ones((3, 2)), 'fc.bias': np.ones(3)}"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("None", "TypeError: `read` returned NoneType, not ReadModel, when it read `a.mine`"),
        (
            f"ReadModel('{PROGRAM}', {{'fc.weight': [1.0]}})",
            "TypeError: `fc.weight` is of type list, not a NumPy array, when it read `a.mine`",
        ),
        ("ReadModel(5, {})", "TypeError: the program is of type int, not a text"),
        ("ReadModel('', {})", "that it made of `a.mine` is not proved: [E0115]"),
        (
            f"ReadModel('{PROGRAM}', {{'fc.bias': np.array(['a'])}})",
            "TypeError: `fc.bias` is an array of <U1, which are no numbers",
        ),
        (
            f"ReadModel('{PROGRAM}', {WEIGHTS}, [ExampleRun({{'x': np.ones((1, 2), 'f')}}, {{}})])",
            "TypeError: an example has no outputs, when it read `a.mine`",
        ),
        (
            (
                f"ReadModel('{PROGRAM}', {WEIGHTS},"
                " [ExampleRun({'x': np.ones((1, 2), 'i4')}, {'output': np.ones((1, 3))})])"
            ),
            "does not take its example: `x` is f32[1, 2], not int32[1, 2]",
        ),
        (
            f"ReadModel('{PROGRAM}', {{**{WEIGHTS}, 'fc.bias': np.full(3, 1e300)}})",
            "has `fc.bias` as f32[3], in which its values do not fit",
        ),
        (
            "__import__('sys').exit(3)",
            "SystemExit: 3 (meganeura_example_wrong.py:8), when it read `a.mine`",
        ),
        (
            "ReadModel('block Net()(x: [n, 2]) -> [n, 3]:\\n  return x\\n', {})",
            "the program that it made of `a.mine` is not proved: [E03",
        ),
        (f"ReadModel('{BLOCK}', {{}})", "that it made of `a.mine` has 0 models, not one"),
        (
            f"ReadModel('{PROGRAM}', {{'fc.bias': np.ones(3)}})",
            "has the parameter `fc.weight`, of which it gave no values",
        ),
        (
            f"ReadModel('{PROGRAM}', {{**{WEIGHTS}, 'fc.scale': np.ones(3)}})",
            "has no parameter `fc.scale`, of which it gave values",
        ),
        (
            f"ReadModel('{PROGRAM}', {{**{WEIGHTS}, 'fc.bias': np.ones((1, 3))}})",
            "has `fc.bias` as f32[3], of which it gave float64[1, 3]",
        ),
        (
            (
                f"ReadModel('{PROGRAM}', {WEIGHTS},"
                " [ExampleRun({'y': np.ones(1)}, {'output': np.ones(1)})])"
            ),
            "does not take its example: error[E0",
        ),
        (
            (
                f"ReadModel('{PROGRAM}', {WEIGHTS},"
                " [ExampleRun({'x': np.ones((1, 2), 'f')}, {'z': np.ones(1)})])"
            ),
            "has no such output for `z` of its example",
        ),
        (
            (
                f"ReadModel('{PROGRAM}', {WEIGHTS},"
                " [ExampleRun({'x': np.ones((1, 2), 'f')}, {'output': np.ones((3, 1))})])"
            ),
            "has the shape [1, 3] for `output` of its example",
        ),
    ],
)
def test_what_an_importer_gives_is_checked(
    result: str,
    reason: str,
    meganeura: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "meganeura_example_wrong.py").write_text(f"{HEAD}        return {result}\n")
    points = {"meganeura.importers": {"mine": "meganeura_example_wrong:Mine"}}
    install(monkeypatch, site, "meganeura-wrong", points)
    Path("a.mine").write_text("")
    shown = meganeura("import", "a.mine", "-o", "net.mgn")
    assert shown.code == 1
    said = says(shown.err)
    assert "error[E0592]: the importer `mine` of `meganeura-wrong 1.0` cannot be used" in said
    assert reason in said
    assert not Path("net.mgn").exists()


def test_without_examples_nothing_is_compared(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    text = f"{HEAD}        return ReadModel('{PROGRAM}', {WEIGHTS})\n"
    (site / "meganeura_example_wrong.py").write_text(text)
    points = {"meganeura.importers": {"mine": "meganeura_example_wrong:Mine"}}
    install(monkeypatch, site, "meganeura-right", points)
    Path("a.mine").write_text("")
    shown = meganeura("import", "a.mine", "-o", "net.mgn")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("not compared: there are no examples of outputs\n")
    assert load_file("net.safetensors")["fc.weight"].dtype == np.float32


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mine = 3\n", "is no class that derives from `Importer`"),
        ("class Mine(Importer):\n    suffix = 'mine'\n", "has no `read`"),
        ("class Mine(Importer):\n    suffix = 'other'\n", "has another `suffix`"),
        (
            (
                "class Mine(Importer):\n    suffix = 'mine'\n    read = None\n"
                "    def __init__(self):\n        raise OSError('no library')\n"
            ),
            "is not loaded: OSError: no library (meganeura_example_wrong.py:6)",
        ),
    ],
)
def test_one_of_another_form_is_refused(
    text: str, reason: str, meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    head = "from meganeura_runtime.importing.importers import Importer\n"
    (site / "meganeura_example_wrong.py").write_text(head + text)
    points = {"meganeura.importers": {"mine": "meganeura_example_wrong:Mine"}}
    install(monkeypatch, site, "meganeura-wrong", points)
    Path("a.mine").write_text("")
    shown = meganeura("import", "a.mine", "-o", "net.mgn")
    assert shown.code == 1
    assert f"because `meganeura_example_wrong:Mine` {reason}" in says(shown.err)
