"""`meganeura generate`: a text behind a prompt, on standard output; all else on standard error."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from meganeura import load
from meganeura.cli.ui.console import safe
from meganeura_runtime.io.preprocess.mel import RATE
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


DRAW = ("generate", "gan", "--random-weights", "2", "--set", "count=2", "--device", "cpu")


def test_the_model_of_a_file_that_takes_no_inputs_draws(meganeura: Command, tmp_path: Path) -> None:
    """As `meganeura run gan:drawn` does, whose pictures a seed decides."""
    files = [tmp_path / f"{name}.png" for name in "abc"]
    for file, seed in zip(files, ("1", "1", "2"), strict=True):
        assert meganeura(*DRAW, "-o", str(file), "--seed", seed).code == 0
    run = meganeura("run", "gan:drawn", *DRAW[2:], "-o", str(tmp_path / "d.png"), "--seed", "1")
    assert run.code == 0
    drawn = [file.read_bytes() for file in (*files, tmp_path / "d.png")]
    assert drawn[0] == drawn[1] == drawn[3] != drawn[2]


@pytest.mark.parametrize(
    ("model", "more", "told"),
    [
        ("gpt2", [], "each takes inputs"),
        ("gan", ["--prompt", "x"], "drawn of a seed alone"),
        ("gan", ["--prompt", ""], "drawn of a seed alone"),
        ("gan:generator", [], "`gan:generator` takes"),
        ("gpt2_tiny", [], "`gpt2_tiny` takes `ids`"),
    ],
)
def test_what_does_not_draw_is_refused(
    meganeura: Command, tmp_path: Path, model: str, more: list[str], told: str
) -> None:
    file = tmp_path / "a.png"
    found = meganeura("generate", model, "--random-weights", "2", "-o", str(file), *more)
    assert (found.code, file.exists()) == (2, False)
    assert told in found.err


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


WHISPER = {"d": 4, "heads": 1, "layers": 1, "ffn": 4, "positions": 20, "vocabulary": 256}
NARROW = tuple(word for name, size in WHISPER.items() for word in ("--set", f"{name}={size}"))


@pytest.fixture
def sound(tmp_path: Path) -> str:
    """A second of noise, three windows of a narrow model."""
    path = tmp_path / "speech.wav"
    soundfile.write(path, np.random.default_rng(0).normal(size=RATE) * 0.1, RATE)
    return str(path)


def test_a_sound_is_written_down(meganeura: Command, sound: str, tmp_path: Path) -> None:
    model = load("whisper_tiny_full").model(config=WHISPER, seed=4)
    generator = np.random.default_rng(1)
    for name, value in model.values.items():
        model.values[name] = generator.normal(0, 0.7, value.shape).astype(np.float32)
    model.save(tmp_path / "w.safetensors")
    command = ("generate", "whisper_tiny", sound, "--weights", str(tmp_path / "w.safetensors"))
    found = meganeura(*command, *NARROW, "--device", "cpu", "--set", "steps=5")
    assert found.code == 0, found.err
    text = "".join(model.transcribe(sound, steps=5, device="cpu"))
    assert found.out == f"{safe(text)}\n" != "\n"
    assert "weights: " in found.err
    assert "weights: " not in found.out


@pytest.mark.parametrize(
    ("model", "changes", "code", "told"),
    [
        ("whisper_tiny", ["language=en"], 1, "E0662"),
        ("whisper_tiny", ["timestamps=true"], 1, "E0662"),
        ("whisper_tiny", ["steps=449"], 1, "E0661"),
        ("gpt2_tiny", [], 1, "there is no input `sound`"),
        ("digits_mlp", [], 1, "E0660"),
    ],
)
def test_what_is_wrong_with_a_sound_is_said(
    meganeura: Command, sound: str, model: str, changes: list[str], code: int, told: str
) -> None:
    settings = [word for change in changes for word in ("--set", change)]
    narrow = NARROW if model == "whisper_tiny" else ()
    found = meganeura("generate", model, sound, "--random-weights", "0", *narrow, *settings)
    assert found.code == code, found.err
    assert told in found.err
    assert "Traceback" not in found.err


def test_the_folder_of_a_run_writes(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be, " * 40)
    Path("lm.mgn").write_text(
        "block Net(v=256)(ids: i32[n, s]) -> [n, s, v]:\n"
        "  return ids |> table: embedding(v, 8) |> head: linear(v)\nmodel net = Net()\n"
        "train fit(ids: i32[batch, 9]):\n"
        "  minimize cross_entropy(ids[:, :-1] |> net, ids[:, 1:])\n"
        '  run:\n    data  = "text.txt"\n    batch = 8\n    validation = 0.2\n'
    )
    assert meganeura("train", "lm.mgn", "--device", "cpu", "--out", "run").code == 0
    said = ("--prompt", "to", "--set", "steps=4", "--device", "cpu")
    by_name = meganeura("generate", "lm.mgn", "--weights", "run/best.safetensors", *said)
    by_run = meganeura("generate", "run", *said)
    assert (by_run.code, by_run.out) == (0, by_name.out)
    assert by_run.err.startswith("program: lm.mgn:fit\n")
    assert "weights: run/best.safetensors" in by_run.err


def test_either_a_sound_or_a_prompt_is_given(meganeura: Command, tmp_path: Path) -> None:
    none = meganeura("generate", "gpt2_tiny", "--random-weights", "0")
    both = meganeura(*TEXT, str(tmp_path / "a.wav"), "--random-weights", "0")
    spoken = meganeura(*TEXT, "--random-weights", "0", "--set", "language=en")
    assert (none.code, both.code, spoken.code) == (2, 2, 2)
    assert "is about a sound" in spoken.err
    command = ("generate", "whisper_tiny", *NARROW, "--random-weights", "0")
    missing = meganeura(*command, str(tmp_path / "a.wav"))
    assert "E0533" in missing.err
    text = tmp_path / "text.wav"
    text.write_text("no sound")
    assert "E0530" in meganeura(*command, str(text)).err


def test_a_text_is_answered(meganeura: Command) -> None:
    found = meganeura(
        "generate", "t5_tiny", "--random-weights", "2", "--prompt", "Once", "--device", "cpu",
        "--set", "steps=3",
    )  # fmt: skip
    assert found.code == 0
    assert "after 4 tokens" in found.err


def test_a_model_without_caches_writes_and_is_told_so(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(
        "block Net(v=256, p=12)(tokens: i32[n, s]) -> [n, s, v]\n    where s <= p:\n"
        "  x = tokens |> table: embedding(v, 8)\n"
        "  x = x + (iota(s) |> places: embedding(p, 8))\n"
        "  return cumsum(x, 1) |> head: linear(v)\nmodel net = Net()\n"
    )
    command = ("generate", str(file), "--random-weights", "1", "--prompt", "Once", "--device")
    found = meganeura(*command, "cpu", "--set", "steps=11", "--set", "temperature=2")
    assert found.code == 0, found.err
    assert "note[N0007]" in found.err
    assert "takes no `ids: i32[n, s]`" in found.err
    assert "11 tokens, the first" in found.err
    assert "takes 12 tokens: what comes later follows from the last of them" in found.err
    assert len(found.out) > 5
    fewer = meganeura(*command, "cpu", "--set", "steps=3", "--set", "temperature=2")
    assert "takes 12 tokens" not in fewer.err
