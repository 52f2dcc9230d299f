"""`abi`, `shapes` and `build`: what a program is made of."""

import json
from pathlib import Path

import pytest

from meganeura.cli.reports.syntax_tree import draw
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import parse_graph
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.resources import standard_models
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial
from tests.cli.command import Command, Outcome


def test_abi_lists_the_checkpoint_in_order(meganeura: Command) -> None:
    shown = meganeura("abi", "digits_cnn")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["name", "shape", "type", "kind"]
    assert lines[1].split() == ["stem.weight", "[16,", "1,", "3,", "3]", "f32", "param"]
    assert lines[-1] == "20 params, 18 states, 28,410 weights, 114,840 bytes"


def test_abi_of_other_arguments(meganeura: Command) -> None:
    lines = meganeura("abi", "resnet18", "--set", "classes=4").out.splitlines()
    assert ["fc.weight", "[4,", "512]", "f32", "param"] in [line.split() for line in lines]
    assert lines[-1].startswith("62 params, 60 states, 11,178,564 weights")


def test_abi_as_json_counts_what_it_lists(meganeura: Command) -> None:
    found = json.loads(meganeura("abi", "resnet18", "--json").out)
    assert (found["model"], found["params"], found["weights"]) == ("resnet18", 62, 11_689_512)
    assert len(found["tensors"]) == found["params"] + found["states"] == 122
    assert found["tensors"][0] == {
        "name": "conv1.weight",
        "shape": [64, 3, 7, 7],
        "dtype": "f32",
        "kind": "param",
    }
    assert {each["dtype"] for each in found["tensors"] if "tracked" in each["name"]} == {"i64"}


def test_shapes_lists_every_value_for_all_sizes(meganeura: Command) -> None:
    lines = meganeura("shapes", "resnet18").out.splitlines()
    assert lines[0].split() == ["line", "layer", "value", "type"]
    assert lines[1].endswith("f32[n, 64, ceil(h/2), ceil(w/2)]")
    assert lines[1].startswith("resnet.mgn:")
    assert lines[-1].endswith("f32[n, 1000]")


def test_shapes_of_a_train_are_those_of_its_body(meganeura: Command) -> None:
    assert "f32[batch, 10]" in meganeura("shapes", f"{standard_models()}/digits_cnn.mgn:fit").out


FED_BY_PYTHON = """\
block Net()(x: [n, 8]) -> [n, 3]:
  return x |> fc1: linear(4) |> relu |> fc2: linear(3)

model net = Net()

train fit(image: [batch, 8], label: i32[batch]):
  minimize cross_entropy(image |> net, label)
  run:
    batch     = 2
    optimizer = adam()
"""


def _of_a_program_that_python_feeds(
    meganeura: Command, folder: Path, command: tuple[str, ...]
) -> Outcome:
    path = folder / "net.mgn"
    path.write_text(FED_BY_PYTHON)
    name, *options = command
    return meganeura(name, str(path), *options)


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("check", "--limits", "webgpu-default"),
        *(("build", "--emit", stage) for stage in ("graph", "optimized", "plan", "wgsl")),
        ("explain-opt", "--mode", "train"),
        ("gradcheck", "--examples", "1"),
        ("profile", "--mode", "train", "--device", "cpu"),
        ("fit", "--device", "cpu"),
        ("shapes",),
        ("abi",),
    ],
)
def test_a_train_block_without_data_is_looked_at(
    meganeura: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Python may feed it; who reads no examples misses none."""
    shown = _of_a_program_that_python_feeds(meganeura, tmp_path, command)
    assert (shown.code, shown.err) == (0, "")


def test_a_training_step_is_profiled_in_the_precision_of_its_run(
    meganeura: Command, tmp_path: Path
) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(f'{FED_BY_PYTHON}    precision = "bf16"\n')
    shown = meganeura("profile", str(path), "--mode", "train", "--device", "cpu")
    assert shown.code == 1
    assert "`cpu` does not compute in bf16" in shown.err
    assert meganeura("profile", str(path), "--device", "cpu").code == 0


@pytest.mark.parametrize("command", [("train",), ("build", "--mode", "train", "-o", "page.html")])
def test_who_reads_examples_is_told_where_the_data_is_missing(
    meganeura: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shown = _of_a_program_that_python_feeds(meganeura, tmp_path, command)
    assert shown.code == 1
    assert "the setting `data` is missing" in shown.err


def test_a_graph_is_printed_so_that_it_can_be_read_back(meganeura: Command) -> None:
    train = parse_graph(meganeura("build", "digits_cnn", "--emit", "graph").out, OPS)
    assert {"loss", "accuracy"} == set(train.outputs)
    assert "optimizer.fc.weight.momentum" in train.updates
    infer = ("build", "digits_cnn", "--emit", "graph", "--mode", "infer", "--size", "n=2")
    assert str(parse_graph(meganeura(*infer).out, OPS).outputs["output"].type) == "f32[2, 10]"


def test_a_size_of_a_train_is_a_setting(meganeura: Command) -> None:
    shown = meganeura("build", "digits_cnn", "--emit", "graph", "--size", "batch=3")
    image = next(line for line in shown.out.splitlines() if '"image"' in line)
    assert "[3, 1, 8, 8]" in image


def test_a_plan_and_its_kernels_are_printed(meganeura: Command) -> None:
    sizes = ("--size", "n=1", "--size", "h=8", "--size", "w=8")
    infer = ("build", "digits_cnn", "--mode", "infer", *sizes)
    assert "digits_cnn.mgn:15 fc" in meganeura(*infer, "--emit", "plan").out
    assert "@compute" in meganeura(*infer, "--emit", "wgsl").out


def test_the_syntax_tree_is_drawn(meganeura: Command) -> None:
    lines = meganeura("build", "digits_cnn", "--emit", "ast").out.splitlines()
    assert lines[0] == "Module"
    assert "        Name text='Residual'" in lines


def test_a_tree_shows_what_is_written_and_not_where() -> None:
    tree = draw(parse(Source("x.mgn", "def f(a, b=2) = a * -b\n"), Sink()))
    assert tree.splitlines() == [
        "Module",
        "  declarations:",
        "    Def",
        "      name:",
        "        Name text='f'",
        "      parameters:",
        "        Parameter name='a'",
        "        Parameter name='b'",
        "          default:",
        "            Integer value=2",
        "      body:",
        "        Binary operator='*'",
        "          left:",
        "            Name text='a'",
        "          right:",
        "            Unary operator='-'",
        "              operand:",
        "                Name text='b'",
    ]


def test_the_graph_after_a_pass_is_printed(meganeura: Command) -> None:
    step = ("build", "digits_cnn", "--emit")
    text = meganeura(*step, "after:legalize").out
    verify(parse_graph(text, (*OPS, *FUSED_OPS, SplitKPartial)))
    assert "SplitKPartial" in text
    assert "SplitKPartial" not in meganeura(*step, "after:channels-last-layout").out


def test_the_graph_after_a_pass_for_xla_is_printed(meganeura: Command) -> None:
    words = ("build", "digits_cnn", "--device", "xla:cpu", "--emit")
    narrow = ("--set", "precision=bf16")
    before = meganeura(*words, "after:expand-unsupported", *narrow).out
    after = meganeura(*words, "after:one-pass-variance", *narrow).out
    verify(parse_graph(after, (*OPS, *FUSED_OPS)))
    assert before.count("= Maximum(") < after.count("= Maximum(")
    refused = meganeura(*words, "after:flatten-norm-rows", *narrow)
    assert refused.code == 2
    needs = (
        "the pass `flatten-norm-rows` runs for bf16, gpu, inference; here is bf16, cpu, training"
    )
    assert needs in " ".join(refused.err.split())
    unknown = meganeura(*words, "after:legalize")
    assert (
        "there is no pass `legalize`; there are, in order, fuse-attention, fuse-matmul"
        in " ".join(unknown.err.split())
    )


def test_a_device_without_passes_refuses_to_print_them(meganeura: Command) -> None:
    refused = meganeura("build", "digits_cnn", "--emit", "after:legalize", "--device", "cpu")
    assert refused.code == 2
    assert "there is no after:legalize for the CPU" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("after:vectorize", "there is no pass `vectorize`; there are, in order, fuse-attention, "),
        ("llvm", "there is no stage `llvm`; there are ast, graph, optimized, plan, wgsl, "),
    ],
)
def test_a_stage_that_there_is_not_is_refused(meganeura: Command, stage: str, words: str) -> None:
    refused = meganeura("build", "digits_cnn", "--emit", stage)
    assert refused.code == 2
    assert words in " ".join(refused.err.split())
