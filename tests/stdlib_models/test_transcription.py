"""Whisper learns to write down what it hears, and `transcribe` writes it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

import meganeura
from meganeura_runtime.io.preprocess.audio import read_speech
from meganeura_runtime.io.preprocess.mel import HOP, RATE
from tests.effort import effort

PROGRAM = """\
from whisper import Whisper
model net = Whisper(d=16, heads=2, layers=1, ffn=32, mels=16, positions=16, vocabulary=256,
                    length=6)
train fit(mel: [batch, 16, 32], text: i32[batch, 5]):
  logits = mel |> net(maximum(text[:, :4], 0))
  minimize masked_cross_entropy(logits, text[:, 1:])
  run:
    batch     = 3
    epochs    = 60
    optimizer = adam(lr=1e-2)
"""
FRAMES = 32
SOUNDS = {"low": 200, "mid": 900, "up": 3000}


def tones(folder: Path) -> list[tuple[str, str]]:
    """Three tones are three words; what is written of each, and of two in a row."""
    (folder / "net.mgn").write_text(PROGRAM)
    time = np.arange(FRAMES * HOP) / RATE
    for name, pitch in SOUNDS.items():
        soundfile.write(folder / f"{name}.wav", 0.3 * np.sin(2 * np.pi * pitch * time), RATE)
    spoken = [read_speech(folder / f"{name}.wav", 16, FRAMES) for name in SOUNDS]
    texts = [[0, *name.encode(), 0, *[-100] * (3 - len(name))] for name in SOUNDS]
    data = {"mel": np.stack(spoken), "text": np.array(texts, np.int32)}
    program = meganeura.load(str(folder / "net.mgn"))
    run = program.train(data=data, device="cpu", out=folder / "run")
    model = program.model(weights=run.weights)
    both = [soundfile.read(folder / f"{name}.wav")[0] for name in ("up", "low")]
    soundfile.write(folder / "uplow.wav", np.concatenate(both), RATE)
    names = ("mid", "uplow")
    return [
        ("".join(model.transcribe(folder / f"{name}.wav", device="cpu")), name) for name in names
    ]


def sentences(folder: Path) -> list[tuple[str, str]]:
    """Sentences of synthetic speech that were held out."""
    script = Path(__file__).parents[2] / "scripts" / "synthetic_speech.py"
    data, sounds = folder / "sentences.safetensors", folder / "sounds"
    subprocess.run([sys.executable, script, data, sounds], check=True, capture_output=True)
    program = meganeura.load("whisper:sentences")
    run = program.train(settings={"data": str(data)}, device="xla:cpu", out=folder / "run")
    model = meganeura.load("whisper").model("whisper_sentences", weights=run.weights)
    return [
        ("".join(model.transcribe(sound, device="cpu")), " ".join(sound.stem.split("-")[1:]))
        for sound in sorted(sounds.iterdir())
    ]


@pytest.mark.parametrize("learned", [tones, sentences][: effort(1, 2)])
def test_what_was_learned_is_written_down(
    learned: Callable[[Path], list[tuple[str, str]]], tmp_path: Path
) -> None:
    found = learned(tmp_path)
    assert sum(text == wanted for text, wanted in found) >= 0.9 * len(found), found
