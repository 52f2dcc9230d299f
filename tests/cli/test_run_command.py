"""`meganeura run`: from files to outputs, and everything it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image
from safetensors.numpy import load_file, save_file

import meganeura as api
from tests.cli.command import Command

SEEDED = ("--random-weights", "0", "--device", "cpu")

TWO = """\
block Two()(a: [n, d], b: [n, d]) -> [n, d], [n]:
  return a + b, sum(a * b, 1)

model two = Two()
"""


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    api.load("digits_mlp").model(seed=0).save("weights.safetensors")
    np.save("x.npy", digits())
    (tmp_path / "two.mgn").write_text(TWO)


def digits() -> np.ndarray:
    return (np.arange(3 * 64).reshape(3, 1, 8, 8) % 17).astype(np.float32)


def test_a_model_is_run_with_its_weights(meganeura: Command) -> None:
    shown = meganeura(
        "run", "digits_mlp", "--weights", "weights.safetensors", "--device", "cpu",
        "--input", "image=x.npy", "--output", "y.npy",
    )  # fmt: skip
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[:2] == ["weights: weights.safetensors", "device: cpu (as asked)"]
    assert lines[2].startswith("output: float32[3, 10], from ")
    assert lines[-1] == "written: y.npy"
    expected = api.load("digits_mlp").model(seed=0).run({"image": digits()})["output"]
    np.testing.assert_allclose(np.load("y.npy"), expected, atol=1e-6)


def test_random_weights_are_those_of_their_seed(meganeura: Command) -> None:
    shown = meganeura(
        "run", "digits_mlp", "--random-weights", "5", "--device", "cpu",
        "--input", "x.npy", "--output", "y.npy",
    )  # fmt: skip
    assert shown.out.startswith("weights: random, of seed 5\n")
    expected = api.load("digits_mlp").model(seed=5).run({"image": digits()}, device="cpu")["output"]
    np.testing.assert_allclose(np.load("y.npy"), expected, atol=1e-6)


def test_the_likeliest_classes_come_first(meganeura: Command, tmp_path: Path) -> None:
    names = [f"digit {number}" for number in range(10)]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    shown = meganeura(
        "run", "digits_mlp", *SEEDED, "--input", "x.npy", "--top", "2", "--labels", "names.txt",
        "--output", "y.npy",
    )  # fmt: skip
    assert shown.code == 0
    rows = [line.split() for line in shown.out.splitlines() if line.startswith("      ")]
    assert len(rows) == 3 * 2
    logits = np.load("y.npy")
    for example, row in enumerate(rows[::2]):
        best = int(logits[example].argmax())
        assert row[:4] == [str(example), str(best), "digit", str(best)]
        shares = np.exp(logits[example]) / np.exp(logits[example]).sum()
        assert float(row[5]) == pytest.approx(shares[best], abs=1e-4)


@pytest.mark.parametrize(
    "content",
    [
        [f"digit {number}" for number in range(10)],
        {"id2label": {str(number): f"digit {number}" for number in range(10)}},
        {str(number): f"digit {number}" for number in reversed(range(10))},
    ],
)
def test_names_of_classes_from_json(meganeura: Command, tmp_path: Path, content: object) -> None:
    (tmp_path / "names.json").write_text(json.dumps(content))
    arguments = ("--input", "x.npy", "--labels", "names.json")
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 0
    assert "digit 3" in shown.out


@pytest.mark.parametrize("suffix", [".txt", ".json"])
def test_names_of_classes_do_not_reach_the_terminal_raw(
    meganeura: Command, tmp_path: Path, suffix: str
) -> None:
    names = [f"digit {number}\x1b]0;owned\x07\u202e" for number in range(10)]
    lines = json.dumps([f"{name}\n" for name in names]) if suffix == ".json" else "\n".join(names)
    (tmp_path / f"names{suffix}").write_text(lines)
    arguments = ("--input", "x.npy", "--labels", f"names{suffix}")
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 0
    assert "\\x1b]0;owned\\x07\\u202e" in shown.out
    assert all(char.isprintable() or char == "\n" for char in shown.out)
    assert len(shown.out.splitlines()) == len(
        meganeura("run", "digits_mlp", *SEEDED, "--input", "x.npy").out.splitlines()
    )


@pytest.mark.parametrize("content", ["[1, 2]", "{", '{"0": "a", "2": "b"}', '{"id2label": 3}'])
def test_a_file_without_names_is_refused(meganeura: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "names.json").write_text(content)
    arguments = ("--input", "x.npy", "--labels", "names.json")
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 1
    assert "error[E0530]" in shown.err


def test_a_picture_is_prepared_and_it_is_said_how(meganeura: Command) -> None:
    Image.fromarray(np.arange(30 * 40, dtype=np.uint8).reshape(30, 40)).save("a.png")
    arguments = ("--input", "a.png", "--std", "0.0625", "--resample", "box")
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 0
    source, steps = shown.out.splitlines()[:2]
    assert source.endswith("prepared: taken as usual, but for --std --resample")
    assert steps == (
        "image: a.png, 30 x 40, in grey, resized to cover 8 x 8 (box), cropped to 8 x 8, / 255, "
        "mean 0, std 0.0625"
    )


def test_pictures_of_one_input_are_a_batch(meganeura: Command) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.zeros((9, 9), np.uint8)).save(name)
    arguments = ("--input", "image=a.png", "--input", "image=b.png")
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 0
    assert "output: float32[2, 10]" in shown.out


def test_a_file_beside_the_weights_says_how_pictures_are_prepared(
    meganeura: Command, tmp_path: Path
) -> None:
    Image.fromarray(np.zeros((9, 9), np.uint8)).save("a.png")
    config = {"size": 8, "image_mean": [0.25], "image_std": [2.0]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    arguments = ("--weights", "weights.safetensors", "--device", "cpu", "--input", "a.png")
    shown = meganeura("run", "digits_mlp", *arguments)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "as told by preprocessor_config.json"
    assert lines[1].endswith("stretched to 8 x 8 (bilinear), / 255, mean 0.25, std 2")
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0, 0, 0], "size": 8}')
    shown = meganeura("run", "digits_mlp", *arguments)
    assert shown.code == 1
    assert "3 numbers do not normalise 1 colours" in shown.err


def test_a_sound_becomes_a_spectrogram(meganeura: Command, tmp_path: Path) -> None:
    (tmp_path / "ear.mgn").write_text(
        "block Ear()(mel: [n, 80, t]) -> [n, t]:\n  return mean(mel, 1)\n\nmodel ear = Ear()\n"
    )
    soundfile.write("a.wav", np.sin(np.arange(44_100) / 9) / 2, 44_100)
    arguments = ("--input", "a.wav", "--seconds", "1.5", "--output", "y.safetensors")
    shown = meganeura("run", "ear.mgn", *SEEDED, *arguments)
    assert shown.code == 0
    assert shown.out.splitlines()[0] == (
        "mel: a.wav, 1.00 s at 44,100 Hz, mono, log-mel 80 x 150, silence up to 1.5 s"
    )
    assert load_file("y.safetensors")["output"].shape == (1, 150)


def test_a_length_that_the_model_has_fixed_cannot_be_chosen(
    meganeura: Command, tmp_path: Path
) -> None:
    (tmp_path / "ear.mgn").write_text(
        "block Ear()(mel: [n, 80, 100]) -> [n, 80]:\n  return mean(mel, 2)\n\nmodel ear = Ear()\n"
    )
    soundfile.write("a.wav", np.zeros(16_000), 16_000)
    shown = meganeura("run", "ear.mgn", *SEEDED, "--input", "a.wav", "--seconds", "1.5")
    assert shown.code == 1
    assert "it takes 100 frames, whatever `--seconds` says" in shown.err


def test_all_inputs_and_outputs_in_one_file(meganeura: Command) -> None:
    a, b = np.ones((2, 3), np.float32), np.arange(6.0).reshape(2, 3)
    save_file({"a": a, "b": b}, "in.safetensors")
    np.savez("in.npz", a=a, b=b)
    for file in ("in.safetensors", "in.npz"):
        shown = meganeura("run", "two.mgn", *SEEDED, "--input", file, "--output", "o.safetensors")
        assert shown.code == 0
        np.testing.assert_array_equal(load_file("o.safetensors")["output0"], a + b)
        assert "output1: float32[2] = [3.0, 12.0]" in shown.out


def test_an_input_takes_the_tensor_of_its_name_or_the_only_one(meganeura: Command) -> None:
    save_file({"a": np.ones((2, 3)), "c": np.ones((2, 3))}, "ac.safetensors")
    np.save("other.npy", np.ones((2, 3)))
    inputs = ("--input", "a=ac.safetensors", "--input", "b=other.npy")
    assert meganeura("run", "two.mgn", *SEEDED, *inputs).code == 0
    inputs = ("--input", "a=other.npy", "--input", "b=ac.safetensors")
    shown = meganeura("run", "two.mgn", *SEEDED, *inputs)
    assert shown.code == 1
    assert "error[E0522]" in shown.err


def test_arguments_of_the_model_are_set(meganeura: Command) -> None:
    shown = meganeura("run", "digits_mlp", *SEEDED, "--input", "x.npy", "--set", "classes=3")
    assert "output: float32[3, 3]" in shown.out
    shown = meganeura(
        "run", "digits_mlp", "--weights", "weights.safetensors", "--device", "cpu",
        "--input", "x.npy", "--set", "classes=3",
        "--allow-missing", "fc2.*", "--allow-unexpected", "fc2.*",
    )  # fmt: skip
    assert shown.code == 0
    assert "  at their initial values: fc2.weight, fc2.bias" in shown.out


def test_words_outside_of_the_vocabulary_are_refused(meganeura: Command) -> None:
    np.save("ids.npy", np.array([[1, 300, 2]]))
    shown = meganeura("run", "lm_tiny", *SEEDED, "--input", "ids.npy", "--set", "vocabulary=256")
    assert shown.code == 1
    assert "`ids` holds 300, and must be below 256" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--input", "x.npy"), "give the weights of a file"),
        (("--input", "x.npy", "--random-weights", "0", "--weights", "weights.safetensors"), "give"),
        (("--input", "x.npy", "--random-weights", "0", "--allow-missing", "*"), "no weights"),
        (("--input", "x.npy", "--weights", "no.safetensors"), "there is no `no.safetensors`"),
        ((*SEEDED, "--input", "no.npy"), "there is no `no.npy`"),
        ((*SEEDED, "--input", "x.npy", "--output", "y.csv"), "the name ends in .npy"),
        ((*SEEDED, "--input", "x.npy", "--crop", "0"), "--crop"),
        ((*SEEDED, "--input", "x.npy", "--mean", "a,b"), "--mean"),
        ((*SEEDED, "--input", "x.npy", "--std", "0"), "--std"),
        ((*SEEDED, "--input", "x.npy", "--resample", "magic"), "--resample"),
        ((*SEEDED, "--input", "x.npy", "--set", "n=0"), "number from 1"),
        ((*SEEDED, "--input", "x.npy", "--device", "abacus"), "abacus"),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    meganeura: Command, arguments: tuple[str, ...], words: str
) -> None:
    shown = meganeura("run", "digits_mlp", *arguments)
    assert shown.code == 2
    assert words in shown.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--input", "imge=x.npy"), "E0560"),
        (("--input", "x.npy", "--input", "x.npy"), "E0530"),
        (("--input", "flat.npy"), "E0561"),
        (("--input", "x.npy", "--set", "n=5"), "E0561"),
        (("--input", "x.npy", "--set", "clases=5"), "E0202"),
        (("--input", "nan.npy"), "E0531"),
        (("--input", "data.csv"), "E0521"),
        (("--input", "a.wav"), "E0563"),
        (("--input", "x.npy", "--resample", "nearest"), "E0565"),
        (("--input", "x.npy", "--seconds", "1"), "E0565"),
    ],
)
def test_inputs_that_do_not_fit_exit_with_1(
    meganeura: Command, arguments: tuple[str, ...], code: str
) -> None:
    np.save("flat.npy", digits()[:, 0])
    np.save("nan.npy", digits() * np.nan)
    Path("data.csv").write_text("1")
    soundfile.write("a.wav", np.zeros(400), 16_000)
    shown = meganeura("run", "digits_mlp", *SEEDED, *arguments)
    assert shown.code == 1
    assert f"error[{code}]" in shown.err


def test_several_inputs_are_named(meganeura: Command) -> None:
    np.save("a.npy", np.ones((2, 3)))
    shown = meganeura("run", "two.mgn", *SEEDED, "--input", "a.npy")
    assert shown.code == 1
    assert "`a` is not given, `b` is not given" in shown.err
    shown = meganeura("run", "two.mgn", *SEEDED, "--input", "a=a.npy", "--output", "y.npy")
    assert shown.code == 2
    assert "output0, output1: use .safetensors" in shown.err


def test_a_file_is_written_whole_or_not_at_all(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("run", "digits_mlp", *SEEDED, "--input", "x.npy", "--output", "no/y.npy")
    assert shown.code == 1
    assert "error[E0534]" in shown.err
    before = sorted(tmp_path.iterdir())
    again = ("--output", "x.npy", "--force")
    assert meganeura("run", "digits_mlp", *SEEDED, "--input", "x.npy", *again).code == 0
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["run", "deploy"])
def test_a_folded_weight_that_overflows_is_told(command: str, meganeura: Command) -> None:
    Path("net.mgn").write_text(
        """\
block Net()(x: [n, 3, h, w]) -> [n, 2, h, w]:
  return x |> conv: conv2d(2, 1, bias=false) |> norm: batch_norm

model net = Net()
"""
    )
    model = api.load("net.mgn").model(seed=0)
    model.save("net.safetensors")
    values = load_file("net.safetensors")
    values["conv.weight"][:] = 3e38
    values["norm.running_var"][:] = 0
    save_file(values, "net.safetensors")
    np.save("small.npy", np.full((1, 3, 2, 2), 1e-30, np.float32))
    files = ["--input", "small.npy"] if command == "run" else ["-o", "out.safetensors"]
    shown = meganeura(command, "net.mgn", "--weights", "net.safetensors", *files)
    assert shown.code == 1
    assert "the folded weight `norm.derived.0` is not finite in f32" in shown.err
    assert "conv.weight, norm.weight, norm.running_var" in shown.err
    assert not Path("out.safetensors").exists()
    if command == "run":
        again = meganeura(
            command, "net.mgn", "--weights", "net.safetensors", *files, "--no-opt",
            "--output", "y.npy",
        )  # fmt: skip
        assert again.code == 0
        assert np.isfinite(np.load("y.npy")).all()


# --- models that draw, and pictures --------------------------------------------------------------

NOISE = """\
block Noise(count, c)() -> [count, c, 2, 4]:
  param scale: [] = 1
  return scale * random_uniform([count, c, 2, 4]) + 0.5

block Blurred()(image: [n, 1, h, w]) -> [n, 1, h, w] = image + 0 * random_normal(shape(image))

model grey    = Noise(5, 1)
model colours = Noise(2, 3)
model blurred = Blurred()
"""


def test_a_model_draws_from_its_seed(meganeura: Command) -> None:
    Path("noise.mgn").write_text(NOISE)
    files = ["a.npy", "b.npy", "c.npy"]
    for seed, file in zip(("0", "0", "1"), files, strict=True):
        shown = meganeura("run", "noise.mgn:grey", *SEEDED, "--seed", seed, "-o", file)
        assert (shown.code, shown.err) == (0, "")
    first, again, other = map(np.load, files)
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9
    model = api.load("noise.mgn").model("grey", seed=0)
    np.testing.assert_array_equal(model.run(device="cpu")["output"], first)
    np.testing.assert_array_equal(model.run(seed=1, device="cpu")["output"], other)


def test_a_model_may_draw_beside_its_only_input(meganeura: Command) -> None:
    Path("noise.mgn").write_text(NOISE)
    shown = meganeura("run", "noise.mgn:blurred", *SEEDED, "--input", "x.npy", "-o", "y.npy")
    assert shown.code == 0
    np.testing.assert_array_equal(np.load("y.npy"), digits())
    shown = meganeura("run", "noise.mgn:blurred", *SEEDED)
    assert (shown.code, "image" in shown.err) == (1, True)


def test_images_are_one_picture(meganeura: Command) -> None:
    """Five of 2 x 4 pixels, 16 times as large, in two rows of three with a gap of 4 around each."""
    Path("noise.mgn").write_text(NOISE)
    shown = meganeura("run", "noise.mgn:grey", *SEEDED, "-o", "grey.png")
    assert (shown.code, shown.err) == (0, "")
    with Image.open("grey.png") as picture:
        grid = np.asarray(picture)
    assert grid.shape == (4 + 2 * (32 + 4), 4 + 3 * (64 + 4))
    values = api.load("noise.mgn").model("grey", seed=0).run(device="cpu")["output"]
    assert values.max() > 1  # which is cut off
    shades = np.rint(np.clip(values, 0, 1) * 255)
    np.testing.assert_array_equal(grid[4 + 8 : 36 : 16, 72 + 8 : 136 : 16], shades[1, 0])
    np.testing.assert_array_equal(grid[40 + 8 : 72 : 16, 4 + 8 : 68 : 16], shades[3, 0])
    assert (grid[40:, 140:] == 128).all()
    meganeura("run", "noise.mgn:colours", *SEEDED, "-o", "colours.png")
    with Image.open("colours.png") as picture:
        assert picture.mode == "RGB"


def test_an_input_that_is_not_given_is_named(meganeura: Command) -> None:
    shown = meganeura("run", "digits_mlp", *SEEDED)
    assert shown.code == 1
    assert "`image` is not given" in shown.err
    assert "--input image=FILE" in shown.err


def test_what_is_no_image_is_no_picture(meganeura: Command) -> None:
    shown = meganeura("run", "digits_mlp", *SEEDED, "--input", "x.npy", "-o", "y.png")
    assert shown.code == 2
    assert "a picture is floats [n, 1, h, w] or [n, 3, h, w]" in " ".join(shown.err.split())
    assert not Path("y.png").exists()


SHOWN = """\
block Net()(x: [n, 4]) -> [n, 2]:
  h = relu(x |> fc: linear(3)) |> show("after relu")
  return h |> head: linear(2)

model net = Net()
"""


def test_values_are_shown_by_their_names(meganeura: Command, tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(SHOWN)
    np.save("x.npy", np.full((3, 4), 1e30, np.float32))
    run = ("run", "net.mgn", *SEEDED, "--input", "x.npy")
    plain = meganeura(*run)
    assert plain.code == 0
    lines = plain.out.splitlines()
    assert lines[2].split() == ["value", "type", "mean", "deviation", "from", "to", "not", "finite"]
    assert lines[3].startswith("after relu  float32[3, 3]")
    assert lines[4].startswith("output: float32[3, 2]")
    asked = meganeura(*run, "--show", "fc", "--show", "h*", "-o", "y.safetensors")
    names = [line.split("  ")[0] for line in asked.out.splitlines()[3:7]]
    assert names == ["fc", "after relu", "h", "head"]
    written = load_file("y.safetensors")
    assert set(written) == {"output", *names}
    np.testing.assert_array_equal(written["h"], np.maximum(written["fc"], 0))
    alone = meganeura(*run, "--show", "fc", "-o", "y.npy")
    assert alone.code == 0
    np.testing.assert_array_equal(np.load("y.npy"), written["output"])
    wrong = meganeura(*run, "--show", "fc1")
    assert (wrong.code, "E0669" in wrong.err) == (1, True)
