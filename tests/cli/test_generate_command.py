"""`meganeura generate`: a text behind a prompt, on standard output; all else on standard error."""

from pathlib import Path

import pytest

from meganeura import load
from tests.cli.command import Command

TEXT = ("generate", "lm_tiny", "--prompt", "Once upon", "--device", "cpu")


def test_text_goes_to_standard_output_alone(meganeura: Command) -> None:
    found = meganeura(*TEXT, "--random-weights", "3", "--set", "steps=6")
    assert found.code == 0
    assert "weights: random, of seed 3" in found.err
    assert "6 tokens, the first" in found.err
    assert found.out.endswith("\n")
    assert "weights" not in found.out
    again = meganeura(*TEXT, "--random-weights", "3", "--set", "steps=6", "--no-opt")
    assert again.out == found.out


def test_a_seed_decides_what_is_drawn(meganeura: Command) -> None:
    drawn = [
        meganeura(
            *TEXT, "--random-weights", "3", "--set", "steps=12", "--set", "temperature=1",
            "--set", "top_k=50", "--seed", seed,
        ).out
        for seed in ("1", "1", "2")
    ]  # fmt: skip
    assert drawn[0] == drawn[1] != drawn[2]


def test_it_writes_from_a_file_of_weights(meganeura: Command, tmp_path: Path) -> None:
    model = load("lm_tiny").model("lm_tiny", seed=5)
    model.save(tmp_path / "lm.safetensors")
    found = meganeura(*TEXT, "--weights", str(tmp_path / "lm.safetensors"), "--set", "steps=4")
    assert found.code == 0
    assert found.out.rstrip("\n") == "".join(model.generate("Once upon", steps=4, device="cpu"))


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        (["--set", "steps=0"], 1, "E0662"),
        (["--set", "temperature=-1"], 1, "E0662"),
        (["--set", "temperature=hot"], 2, "temperature"),
        (["--set", "top_k=1.5"], 2, "top_k"),
        (["--set", "top_k=300", "--set", "temperature=1"], 1, "E0664"),
        (["--set", "depth=3"], 1, "depth"),
        (["--prompt", ""], 1, "E0665"),
    ],
)
def test_what_is_wrong_is_said(
    meganeura: Command, changes: list[str], code: int, told: str
) -> None:
    found = meganeura(*TEXT, "--random-weights", "0", *changes)
    assert found.code == code, found.err
    assert told in found.err
    assert "Traceback" not in found.err


def test_what_does_not_generate_is_refused(meganeura: Command) -> None:
    found = meganeura("generate", "resnet18", "--prompt", "x", "--random-weights", "0")
    assert found.code == 1
    assert "E0660" in found.err
    found = meganeura("generate", "gpt2_tiny", "--prompt", "x" * 66, "--random-weights", "0")
    assert "E0661" in found.err
    assert meganeura("generate", "gpt2_tiny", "--prompt", "x").code == 2


def test_without_a_number_as_many_tokens_are_written_as_fit(meganeura: Command) -> None:
    found = meganeura(
        "generate", "gpt2_tiny", "--random-weights", "0", "--prompt", "Once", "--device", "cpu"
    )
    assert found.code == 0
    assert found.err.splitlines()[-1].startswith("61 tokens")
