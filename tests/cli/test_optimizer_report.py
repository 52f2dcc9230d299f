"""`build --report` and `explain-opt`: what was rewritten, by which rules, at which lines."""

import json
from collections import Counter
from pathlib import Path

import pytest

from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS, FusedConv
from meganeura_dsl.ir.text import parse_graph
from meganeura_dsl.transforms.egraph.certificates.chain_search import ChainSearch
from tests.cli.command import Command

INFER = ("--mode", "infer", "--size", "n=1", "--size", "h=8", "--size", "w=8")


def test_the_optimized_graph_can_be_read_back(meganeura: Command) -> None:
    shown = meganeura("build", "digits_cnn", *INFER, "--emit", "optimized")
    graph = parse_graph(shown.out, [*OPS, *FUSED_OPS])
    convolutions = [value for value in graph.values if isinstance(value.op, FusedConv)]
    assert sum(len(value.operands) == 4 for value in convolutions) == 2
    plain = meganeura("build", "digits_cnn", *INFER, "--emit", "optimized", "--no-opt")
    graph = meganeura("build", "digits_cnn", *INFER, "--emit", "graph")
    assert plain.out == graph.out


def test_the_plan_is_of_the_optimized_graph(meganeura: Command) -> None:
    dispatches = [
        int(meganeura("build", "digits_cnn", *INFER, *options).out.split()[0])
        for options in ((), ("--no-opt",))
    ]
    assert dispatches[0] < dispatches[1]


def test_a_report_follows_the_stage(meganeura: Command) -> None:
    shown = meganeura("build", "digits_cnn", *INFER, "--emit", "optimized", "--report").out
    head, text = shown.split("\ninfer: ")
    assert head.startswith("%0 = Input")
    assert " values become 23\n" in text
    assert "e-graph: " in text
    assert "launches  " in text
    assert "digits_cnn.mgn:" in text
    assert "matched, and not chosen: " in text
    assert "derived from those of the program, once" in text


def test_a_report_of_a_training_step_has_two_phases(meganeura: Command) -> None:
    shown = meganeura("build", "digits_cnn", "--emit", "optimized", "--report", "--json")
    found = json.loads(shown.out)
    assert found["stage"] == "optimized"
    assert "FusedMatMul" in found["text"]
    assert [each["mode"] for each in found["phases"]] == ["forward", "train"]
    assert found["values_after"] < found["values_before"]
    assert found["phases"][0]["seconds"].keys() == {
        "encode", "saturate", "read", "extract", "decode",
    }  # fmt: skip
    assert json.loads(meganeura("build", "digits_cnn", "--emit", "ast", "--json").out).keys() == {
        "stage",
        "text",
    }


def test_a_model_is_explained_without_sizes(meganeura: Command) -> None:
    found = json.loads(meganeura("explain-opt", "digits_cnn", "--json").out)
    assert found["sizes"] == {"h": 32, "n": 1, "w": 32}
    (phase,) = found["phases"]
    rules = {each["rule"] for each in phase["chosen"]}
    assert "conv-residual-activation" in rules
    assert rules <= found["formulas"].keys()
    assert phase["matches"]["convolve-once"] > 0
    assert phase["cost_after"]["launches"] < phase["cost_before"]["launches"]
    assert any(each["location"].startswith("digits_cnn.mgn:") for each in phase["chosen"])
    shown = meganeura("explain-opt", "digits_cnn", "--set", "h=8", "--set", "w=8")
    assert shown.out.startswith("for h = 8, n = 1, w = 8\ninfer: ")
    assert "rule that led there" in shown.out


def test_a_training_step_is_explained(meganeura: Command) -> None:
    shown = meganeura("explain-opt", "digits_cnn", "--mode", "train", "--set", "batch=2")
    assert "\nforward: " in f"\n{shown.out}"
    assert "\ntrain: " in shown.out
    off = meganeura("explain-opt", "digits_cnn", "--mode", "train", "--no-opt")
    assert off.out == "the optimizer is off\n"


@pytest.mark.parametrize("command", [("build", *INFER), ("explain-opt",)])
def test_an_unknown_rule_is_refused(meganeura: Command, command: tuple[str, ...]) -> None:
    shown = meganeura(command[0], "digits_cnn", *command[1:], "--disable-rule", "conv-bais")
    assert shown.code == 2
    assert "did you mean `conv-bias`?" in shown.err


def test_a_size_that_is_open_is_asked_for(meganeura: Command) -> None:
    shown = meganeura("build", "digits_cnn", "--mode", "infer", "--emit", "optimized")
    assert shown.code == 2
    assert "numbers are needed for h, n, w" in shown.err


def test_the_rules_that_led_to_a_reparameterised_network_are_counted(meganeura: Command) -> None:
    found = json.loads(meganeura("explain-opt", "repvgg_a0", "--json").out)
    (phase,) = found["phases"]
    chosen, led = (
        Counter(each["rule"] for each in phase[kind]) for kind in ("chosen", "contributed")
    )
    assert chosen["conv-activation"] == 22
    # 61 batch norms: after 44 convolutions, and of 17 identities, which become convolutions too.
    assert led["affine-scale"] == 61
    assert led["fold-affine-into-convolution"] >= 44
    assert led["affine-as-convolution-2"] == 17
    # The kernels of all branches but one grow, and the branches of each block are summed.
    assert led["grow-kernel-2"] == 22 + 17
    assert led["sum-of-convolutions"] == 22 + 17
    assert {"conv-residual", "winograd"}.isdisjoint(led)
    places = {each["location"] for each in phase["contributed"]}
    assert {"repvgg.mgn:10", "repvgg.mgn:21"} <= places


def test_a_rule_that_was_chosen_did_not_lead_there(meganeura: Command, tmp_path: Path) -> None:
    """It matches what it makes, a product, and could so be taken for one that led to itself."""
    body = "  return 3 * (x |> fc: linear(5, bias=false))\n"
    (tmp_path / "net.mgn").write_text(f"block f()(x: [n, 4]):\n{body}\nmodel m = f()\n")
    found = json.loads(meganeura("explain-opt", str(tmp_path / "net.mgn"), "--json").out)
    (phase,) = found["phases"]
    assert [each["rule"] for each in phase["chosen"]] == ["matmul-right"]
    assert phase["contributed"] == []


def test_where_no_chain_is_found_nothing_is_certified_and_the_report_says_so(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChainSearch, "run", lambda _: None)
    assert "no chain of rules was found" in meganeura("explain-opt", "digits_mlp").out
    file = tmp_path / "run.json"
    shown = meganeura("explain-opt", "digits_mlp", "--certificate", str(file))
    assert shown.code == 1
    assert "nothing was written: no chain of rules was found" in shown.err
    assert not file.exists()


def test_with_json_the_line_on_the_certificate_is_an_error_line(
    meganeura: Command, tmp_path: Path
) -> None:
    file = tmp_path / "run.json"
    shown = meganeura("explain-opt", "digits_mlp", "--certificate", str(file), "--json")
    assert json.loads(shown.out)["mode"] == "infer"
    assert "check it by meganeura-verify" in shown.err
