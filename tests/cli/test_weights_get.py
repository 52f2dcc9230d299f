"""`meganeura weights get`: from a hub to a folder of weights that commands read.

The hub is one on this machine. No test asks the real one.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import BinaryIO

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save

from meganeura import load
from meganeura_dsl import pipeline
from meganeura_dsl.support.installation import install_command
from meganeura_runtime.io.hub import client
from meganeura_runtime.io.hub import pretrained as names
from meganeura_runtime.io.hub.pretrained import PINNED, Pretrained, pretrained
from meganeura_runtime.io.hub.snapshot import Cache
from meganeura_runtime.io.preprocess.preparation import preparation_of
from meganeura_runtime.io.tensors.safetensors_file import read_metadata
from tests.cli.command import Command
from tests.fake_hub import NOWHERE, FakeHub, Repository, fake_hub

PROGRAM = """\
block Net(classes)(image: [n, 3, h, w]) -> [n, classes]:
  return image |> conv: conv2d(8, 3, pad=1) |> relu |> mean(2, 3) |> fc: linear(classes)

model net = Net(classes=3)
"""
WEIGHTS = "model.safetensors"
TIMM = {
    "architecture": "net",
    "num_classes": 3,
    "label_names": ["cat", "dog", "fox"],
    "pretrained_cfg": {
        "input_size": [3, 8, 12],
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "crop_mode": "center",
        "mean": [0.5, 0.4, 0.3],
        "std": [0.2, 0.3, 0.4],
        "url": "https://nowhere.example",
    },
}


def tensors() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = {"conv.weight": (8, 3, 3, 3), "conv.bias": (8,), "fc.weight": (3, 8), "fc.bias": (3,)}
    return {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def repository(config: object = TIMM, **more: bytes) -> Repository:
    files = {WEIGHTS: save(tensors()), "config.json": json.dumps(config).encode(), **more}
    return Repository(files)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub with one repository, and an empty cache; the working folder has the program."""
    (tmp_path / "net.mgn").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with fake_hub(net=repository()) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.endpoint)
        yield found


def get(meganeura: Command, *more: str) -> tuple[int, str, str]:
    shown = meganeura("weights", "get", "hf:me/net", "-o", "got", "--model", "net.mgn", *more)
    return shown.code, shown.out, " ".join(shown.err.split())


def test_what_is_written_is_read_by_commands(meganeura: Command, hub: FakeHub) -> None:
    code, out, err = get(meganeura)
    assert (code, err) == (0, "")
    assert "net: fine, 4 tensors fit (4 f32)" in out
    assert "classes: 3 names" in out
    assert out.endswith(
        f"written: got; the same again: meganeura weights get hf:me/net@{'a' * 40}\n"
    )
    found = load_file(Path("got") / WEIGHTS)
    for name, values in tensors().items():
        np.testing.assert_array_equal(found[name], values)
    metadata = read_metadata(Path("got") / WEIGHTS)
    content = hub.repositories["me/net"].files[WEIGHTS]
    assert json.loads(metadata["meganeura.source"]) == {
        "repository": "me/net",
        "commit": "a" * 40,
        "file": WEIGHTS,
        "sha256": sha256(content).hexdigest(),
    }
    assert {"meganeura.checksums", "meganeura.classes", "meganeura.image"} <= set(metadata)
    prepared = preparation_of([Path("got")])
    assert prepared.classes == ("cat", "dog", "fox")
    assert prepared.image is not None
    assert str(prepared.image.steps) == (
        "resized to cover 8 x 13 (bicubic), cropped to 8 x 12, / 255, mean 0.5 0.4 0.3, "
        "std 0.2 0.3 0.4"
    )
    Image.fromarray(np.full((20, 30, 3), 90, np.uint8)).save("a.png")
    (answer,) = load("net.mgn").model(weights="got").predict("a.png", device="cpu")
    assert answer.name in ("cat", "dog", "fox")
    assert [each for each, _ in hub.files_asked()] == [WEIGHTS, "config.json"]


def test_what_is_in_the_cache_is_not_asked_for_again(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a commit nothing is asked at all; of a branch its commit, where there is a network."""
    assert get(meganeura)[0] == 0
    hub.asked.clear()
    assert get(meganeura)[0] == 0
    assert [path for path, _ in hub.asked] == ["/api/models/me/net/revision/main"]
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    code, out, _ = get(meganeura)
    assert code == 0
    assert "the hub is not reached" in out
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # not even its library is needed
    assert get(meganeura, "--offline")[0] == 0
    commit = f"hf:me/net@{'a' * 40}"
    assert meganeura("weights", "get", commit, "-o", "again").code == 0
    assert (Path("again") / WEIGHTS).read_bytes() == (Path("got") / WEIGHTS).read_bytes()


def test_a_branch_that_moved_is_another_commit(meganeura: Command, hub: FakeHub) -> None:
    assert get(meganeura)[0] == 0
    moved = repository(TIMM | {"label_names": ["a", "b", "c"]})
    hub.repositories["me/net"] = replace(moved, commit="b" * 40)
    assert f"@{'b' * 40}" in get(meganeura)[1]
    assert preparation_of([Path("got")]).classes == ("a", "b", "c")
    old = f"hf:me/net@{'a' * 40}"
    assert meganeura("weights", "get", old, "-o", "old").code == 0
    assert preparation_of([Path("old")]).classes == ("cat", "dog", "fox")


def test_half_a_file_is_gone_on_with(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much is kept as the library has written, which does so in pieces of 10 MB."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 256)
    content = hub.repositories["me/net"].files[WEIGHTS]
    hub.cut_after = 600
    code, _, err = get(meganeura)
    assert code == 1
    assert "E0652" in err
    assert "0.0 MB of it are kept, and the next attempt goes on there" in err
    assert not Path("got").exists()
    (partial,) = Path("cache").rglob("*.partial")
    assert partial.read_bytes() == content[:512]
    assert get(meganeura, "--offline")[0] == 1
    hub.cut_after = None
    hub.asked.clear()
    assert get(meganeura)[0] == 0
    assert hub.files_asked() == [(WEIGHTS, "bytes=512-"), ("config.json", "")]
    partial.write_bytes(b"?" * (len(content) + 1))  # longer than the file: it begins anew
    partial.with_name(WEIGHTS).unlink()
    assert get(meganeura)[0] == 0


def test_two_downloads_at_once_take_turns(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first, and takes what that has downloaded."""
    began, waits = Event(), Event()
    system = client.http_get

    def slow(url: str, file: BinaryIO, *, expected_size: int, **_: object) -> None:
        began.set()
        assert waits.wait(30)
        system(url, file, expected_size=expected_size)

    monkeypatch.setattr(client, "http_get", slow)
    source = pretrained("hf:me/net")
    lines: list[str] = []

    def second(line: str) -> None:
        lines.append(line)
        waits.set()

    with ThreadPoolExecutor() as pool:
        first = pool.submit(get, meganeura)
        assert began.wait(30)
        found = Cache.of(Path("cache"), source, second, offline=False).get(source)
        code, _, err = first.result()
    assert (code, err) == (0, "")
    assert lines[0].startswith(f"waiting for process {os.getpid()}, which downloads from me--net")
    assert found.weights.read_bytes() == hub.repositories["me/net"].files[WEIGHTS]
    assert [each for each, _ in hub.files_asked()] == [WEIGHTS, "config.json"]
    assert list(Path("cache").rglob("*.partial")) == []


def test_damage_is_found_and_removed(meganeura: Command, hub: FakeHub) -> None:
    assert get(meganeura)[0] == 0
    (kept,) = Path("cache").rglob(WEIGHTS)
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)
    code, _, err = get(meganeura, "--offline")
    assert (code, kept.exists()) == (1, False)
    assert "E0654" in err
    assert get(meganeura)[0] == 0
    small = kept.with_name("config.json")
    small.write_text("{}")
    assert "E0654" in get(meganeura)[2]
    hub.repositories["me/net"].lies[WEIGHTS] = "0" * 64
    hub.repositories["me/net"].commit = "c" * 40
    code, _, err = get(meganeura)
    assert (code, "SHA-256 000" in err) == (1, True)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"pytorch_model.bin": b"\x80"},
            "`pytorch_model.bin`; to read a pickle is to run its code",
        ),
        ({"model.safetensors.index.json": b"{}"}, "its weights are in several files"),
        ({"README.md": b""}, "it has no file of weights at all"),
    ],
)
def test_pickles_are_refused_unread(
    meganeura: Command, hub: FakeHub, files: dict[str, bytes], told: str
) -> None:
    hub.repositories["me/net"] = Repository(files)
    code, _, err = get(meganeura)
    assert code == 1
    assert "E0653" in err
    assert told in err
    assert hub.files_asked() == []


def test_a_model_of_other_sizes_is_refused(meganeura: Command, hub: FakeHub) -> None:
    code, _, err = get(meganeura, "--set", "classes=4")
    assert code == 1
    assert "E0540" in err
    assert "fc.weight" in err
    assert not Path("got").exists()
    assert [each for each, _ in hub.files_asked()] == [WEIGHTS, "config.json"]
    values = tensors() | {"fc.bias": np.array([0, np.nan, 0], np.float32)}
    hub.repositories["me/net"] = replace(repository(), commit="d" * 40)
    hub.repositories["me/net"].files[WEIGHTS] = save(values)
    assert "E0531" in get(meganeura)[2]


@pytest.mark.parametrize(
    ("name", "refusal", "told"),
    [
        ("hf:me/other", None, "there is no such repository, or it is private"),
        ("hf:me/net@v9", None, "it has no such branch, tag or commit"),
        ("hf:me/net", (403, "GatedRepo"), "hf auth login"),
        ("hf:me/net", (403, ""), "hf auth login"),
        ("hf:me/net", (500, ""), "ask again later"),
        ("resnet18", None, "did you mean `timm:resnet18`?"),
        ("timm:resnet", None, "no pretrained weights called `timm:resnet`"),
        ("me/net", None, "did you mean `hf:me/net`?"),
        ("https://huggingface.co/me/net", None, "did you mean `hf:me/net`?"),
        ("hf:../net", None, "no pretrained weights called"),
        ("hf:me/net/more", None, "no pretrained weights called"),
        ("https://hub.example/me/net", None, "no pretrained weights called"),
    ],
)
def test_what_is_not_there_is_said(
    meganeura: Command, hub: FakeHub, name: str, refusal: tuple[int, str] | None, told: str
) -> None:
    hub.refusal = refusal
    shown = meganeura("weights", "get", name, "-o", "got")
    assert shown.code in (1, 2)
    assert told in " ".join(shown.err.split())
    assert not Path("got").exists()


@pytest.mark.parametrize(
    "answer", [b"<html>log in</html>", b"[]", b'{"id": "me/net"}', b'{"id": 1, "siblings": 3}']
)
def test_an_answer_of_no_hub_is_told(meganeura: Command, hub: FakeHub, answer: bytes) -> None:
    """A network that wants a login answers with its own page."""
    hub.answer = answer
    code, _, err = get(meganeura)
    assert code == 1
    assert "E0651" in err
    assert "its answer is not that of a hub" in err


def test_a_full_disk_is_told(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("meganeura_runtime.io.hub.client.http_get", full)
    code, _, err = get(meganeura)
    assert code == 1
    assert "E0534" in err
    assert "No space left" in err
    assert hub.files_asked() == []


def test_without_a_network_or_a_library_it_is_said(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = get(meganeura, "--offline")[2]
    assert "E0652" in err
    assert "without `--offline`" in err
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "E0652" in get(meganeura)[2]
    assert hub.asked == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    assert "E0652" in get(meganeura)[2]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = get(meganeura)
    assert code == 1
    assert install_command("hub") in err


def test_other_weights_are_not_replaced(meganeura: Command, hub: FakeHub) -> None:
    Path("got").mkdir()
    mine = Path("got") / WEIGHTS
    mine.write_bytes(b"mine")
    assert "E0539" in get(meganeura)[2]
    assert (mine.read_bytes(), hub.asked) == (b"mine", [])
    assert get(meganeura, "--force")[0] == 0
    assert get(meganeura)[0] == 0  # what such a command wrote is replaced


def test_a_tokenizer_without_weights_is_not_replaced(meganeura: Command, hub: FakeHub) -> None:
    hub.repositories["me/net"] = repository(**{"tokenizer.json": b"{}"})
    Path("got").mkdir()
    mine = Path("got/tokenizer.json")
    mine.write_bytes(b"mine")
    err = get(meganeura)[2]
    assert "E0539" in err
    assert "is there although that is not" in err
    assert (mine.read_bytes(), hub.asked) == (b"mine", [])
    assert get(meganeura, "--force")[0] == 0
    assert mine.read_bytes() == b"{}"


def test_a_file_in_place_of_the_folder_is_refused_at_once(meganeura: Command, hub: FakeHub) -> None:
    Path("got").write_bytes(b"mine")
    for more in ((), ("--force",)):
        code, _, err = get(meganeura, *more)
        assert code == 1
        assert "E0534" in err
        assert "it is a file" in err
    assert hub.asked == []


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("no object", "it is no JSON object"),
        ({"pretrained_cfg": {"input_size": [3, 8, 8]}}, "`pretrained_cfg.mean`: Field required"),
        ({"pretrained_cfg": TIMM["pretrained_cfg"] | {"crop_mode": "border"}}, "'border'"),  # type: ignore[operator]
        ({"pretrained_cfg": TIMM["pretrained_cfg"] | {"crop_pct": 0}}, "crop_pct"),  # type: ignore[operator]
    ],
)
def test_preprocessing_that_is_not_done_here_is_refused(
    meganeura: Command, hub: FakeHub, config: object, told: str
) -> None:
    hub.repositories["me/net"] = repository(config)
    code, _, err = get(meganeura)
    assert code == 1
    assert told in err


def test_a_checkpoint_of_transformers(
    meganeura: Command, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tensors are below a path in the model, and its masks are left out."""
    stored = {**tensors(), "conv.mask": np.ones((2, 2), np.float32)}
    image = {"do_resize": True, "size": {"height": 8, "width": 8}, "image_mean": [0.1, 0.2, 0.3]}
    files = {
        WEIGHTS: save(stored),
        "config.json": json.dumps({"id2label": {"1": "b", "0": "a", "2": "c"}}).encode(),
        "preprocessor_config.json": json.dumps(image).encode(),
        "tokenizer.json": b"{}",
        "training_args.bin": b"\x80",
    }
    hub.repositories["me/net"] = Repository(files)
    block = "block Whole()(image: [n, 3, h, w]) -> [n, 3] = image |> body: part"
    whole = f"{PROGRAM.replace('net =', 'part =')}\n{block}\n\nmodel net = Whole()\n"
    Path("net.mgn").write_text(whole)
    own = Pretrained(
        "hf:net", "me/net", "a" * 40, sha256(files[WEIGHTS]).hexdigest(), "net.mgn:net", "body.",
        ("body.*.mask", "body.*.other"),
    )  # fmt: skip
    monkeypatch.setattr(names, "PINNED", (own,))
    shown = meganeura("weights", "get", "hf:net")
    assert (shown.code, shown.err) == (0, "")
    folder = Path("weights") / "net"
    assert sorted(load_file(folder / WEIGHTS)) == sorted(f"body.{name}" for name in tensors())
    assert [each for each, _ in hub.files_asked()].count("training_args.bin") == 0
    prepared = preparation_of([folder])
    assert prepared.classes == ("a", "b", "c")
    assert prepared.image is not None
    assert (prepared.image.height, prepared.image.mean) == (8, (0.1, 0.2, 0.3))
    assert prepared.tokenizer == sha256(b"{}").hexdigest()
    assert (folder / "tokenizer.json").read_bytes() == b"{}"
    hub.repositories["me/net"].files[WEIGHTS] = save(tensors())
    hub.repositories["me/net"].commit = "e" * 40
    monkeypatch.setattr(names, "PINNED", (replace(own, revision="e" * 40),))
    assert "E0654" in meganeura("weights", "get", "hf:net").err


def test_a_checkpoint_of_speech(meganeura: Command, hub: FakeHub) -> None:
    sound = {"feature_size": 80, "chunk_length": 30, "feature_extractor_type": "Whisper"}
    hub.repositories["me/net"] = repository({}, **{
        "preprocessor_config.json": json.dumps(sound).encode(),
        "generation_config.json": b"{}",
    })  # fmt: skip
    assert get(meganeura)[0] == 0
    prepared = preparation_of([Path("got")])
    assert prepared.sound is not None
    assert (prepared.sound.mels, prepared.sound.frames, prepared.classes) == (80, 3000, ())
    assert (Path("got") / "generation_config.json").is_file()


def test_names_stand_for_repositories_and_revisions() -> None:
    pinned = pretrained("timm:resnet18")
    assert pinned.repository == "timm/resnet18.a1_in1k"
    assert pretrained("timm:resnet18.a1_in1k") == replace(pinned, name="timm:resnet18.a1_in1k")
    other = pretrained("timm:resnet18.tv_in1k")
    assert (other.repository, other.model) == ("timm/resnet18.tv_in1k", "resnet18")
    assert (other.revision, other.sha256) == ("main", "")
    moved = pretrained("timm:resnet18@v1")
    assert (moved.repository, moved.revision, moved.sha256) == (pinned.repository, "v1", "")
    assert pretrained(f"timm:resnet18@{pinned.revision}").sha256 == pinned.sha256
    assert pretrained("hf:openai-community/gpt2").prefix == "transformer."
    assert pretrained("hf:you/net@refs/pr/2").revision == "refs/pr/2"


@pytest.mark.parametrize("each", PINNED, ids=lambda each: each.name)
def test_pinned_weights_are_of_standard_models(each: Pretrained) -> None:
    assert len(each.revision) == 40
    assert len(each.sha256) == 64
    program = pipeline.load(each.model)
    parameters = pipeline.elaborate_model(program, program.model()).parameters
    assert all(parameter.name.startswith(each.prefix) for parameter in parameters)


def test_they_are_listed(meganeura: Command) -> None:
    shown = meganeura("weights", "list").out
    for each in PINNED:
        assert each.name in shown
        assert each.revision[:12] in shown


def test_a_png_is_no_config(meganeura: Command, hub: FakeHub) -> None:
    picture = BytesIO()
    Image.new("RGB", (2, 2)).save(picture, "PNG")
    hub.repositories["me/net"].files["config.json"] = picture.getvalue()
    assert "it is not JSON" in get(meganeura)[2]
