"""Images against numbers that transformers 5.23 gives, and what cannot be read."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess import images, preprocessor_config
from meganeura_runtime.io.preprocess.images import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Cover,
    Filter,
    ImageSteps,
    Middle,
    Stretch,
    part_of_side,
    read_image,
)
from meganeura_runtime.io.preprocess.input_transforms import Choices, shown_size

N, H, W = dim("n"), dim("h"), dim("w")
COLOUR = TensorType(DType.F32, (N, 3, H, W))
WHOLE = ImageSteps(None, None, Filter.BILINEAR, 1 / 255, (0.0,), (1.0,))


def test_a_network_is_shown_what_is_cut_out_or_else_all() -> None:
    assert shown_size(WHOLE) == (224, 224)
    assert shown_size(replace(WHOLE, resize=Stretch(3, 4))) == (3, 4)
    assert shown_size(replace(WHOLE, resize=Cover(9, 8), crop=Middle(5, 6))) == (5, 6)


def test_options_that_were_given_are_known_by_what_they_are_for() -> None:
    assert Choices().for_images == Choices().for_sounds == ()
    assert Choices(seconds=0.0).for_sounds == ("--seconds",)
    assert Choices(seconds=3.0, config=Path("x")).for_images == ()
    given = Choices(224, 0.5, (0.0,), (1.0,), Filter.BOX)
    names = ("--image-size", "--crop", "--mean", "--std", "--resample")
    assert (given.for_images, given.for_sounds) == (names, ())


def image(height: int, width: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    colours = [(x * 7 + y * 3) % 256, (x * x // 5 + y) % 256, (255 - x) % 256 + 0 * y]
    return Image.fromarray(np.stack(colours, -1).astype(np.uint8))


def saved(folder: Path, image: Image.Image, name: str = "x.png") -> Path:
    image.save(folder / name)
    return folder / name


# The processor, what its `preprocessor_config.json` says, and for images of 90 x 130 and 130 x 91
# the pixels [0, 0, 0], [1, 10, 20] and [2, 23, 31] and the mean.
IMAGENET = {"image_mean": IMAGENET_MEAN, "image_std": IMAGENET_STD}
EXPECTED = {
    "ConvNext": (
        {"crop_pct": 0.875, "size": {"shortest_edge": 32}, "resample": 2, **IMAGENET},
        (1.255672574043274, 0.6778712272644043, 0.6032358459879106),
        (-0.1999315470457077, 0.9754902720451355, 0.6969282248661935),
    ),
    "ViT": (
        {"size": {"height": 24, "width": 32}, "resample": 2},
        (-0.8509804010391235, 0.011764764785766602, 0.14567676706550023),
        (-0.8745098114013672, 0.5058823823928833, 0.19839667032162348),
    ),
    "CLIP": (
        {
            "size": {"shortest_edge": 36},
            "crop_size": {"height": 32, "width": 32},
            "do_center_crop": True,
            "resample": 3,
            **IMAGENET,
        },
        (1.255672574043274, 0.7303922176361084, 0.6034811457839169),
        (-0.1999315470457077, 1.1330533027648926, 0.6973563869058429),
    ),
}


@pytest.mark.parametrize("processor", EXPECTED)
@pytest.mark.parametrize(("sizes", "row"), [((90, 130), 1), ((130, 91), 2)])
def test_the_numbers_are_those_of_transformers(
    tmp_path: Path, processor: str, sizes: tuple[int, int], row: int
) -> None:
    config, *rows = EXPECTED[processor]
    (tmp_path / preprocessor_config.NAME).write_text(json.dumps(config))
    steps = preprocessor_config.image_steps(tmp_path / preprocessor_config.NAME)
    values = read_image(saved(tmp_path, image(*sizes)), 3, steps).values
    found = (values[0, 0, 0], values[1, 10, 20], values.mean(dtype=np.float64))
    assert found == pytest.approx(rows[row - 1], abs=2e-6)


def test_a_picture_as_it_is(tmp_path: Path) -> None:
    path = saved(tmp_path, image(5, 7))
    found = read_image(path, 3, WHOLE)
    assert (found.values.shape, found.height, found.width) == ((3, 5, 7), 5, 7)
    expected = np.asarray(image(5, 7), np.float32).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert read_image(path, 1, WHOLE).values.shape == (1, 5, 7)


@pytest.mark.parametrize("mean", [(0.5,), (0.1, 0.2, 0.3)])
@pytest.mark.parametrize("std", [(0.25,), (0.5, 1.0, 2.0)])
def test_one_mean_or_std_is_that_of_every_color(
    mean: tuple[float, ...], std: tuple[float, ...], tmp_path: Path
) -> None:
    pixels = np.asarray(image(4, 5), np.float32).transpose(2, 0, 1)
    steps = replace(WHOLE, scale=1.0, mean=mean, std=std)
    found = read_image(saved(tmp_path, image(4, 5)), 3, steps).values
    centers, widths = (np.array(each, np.float32)[:, None, None] for each in (mean, std))
    assert np.array_equal(found, (pixels - centers) / widths)


def test_a_picture_that_is_only_warned_of_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    image(4, 5).save(path, exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01")
    with pytest.warns(UserWarning, match="Corrupt EXIF"):
        assert read_image(path, 3, WHOLE).values.shape == (3, 4, 5)


def test_a_picture_stands_as_its_camera_says(tmp_path: Path) -> None:
    lying = image(5, 7)
    exif = lying.getexif()
    exif[0x0112] = 6  # turn by 90 degrees
    lying.save(tmp_path / "x.png", exif=exif)
    assert read_image(tmp_path / "x.png", 3, WHOLE).values.shape == (3, 7, 5)


@pytest.mark.parametrize(
    ("size", "resized"),
    [
        ((300, 400), (256, 341)),
        ((400, 300), (341, 256)),
        ((256, 256), (256, 256)),
        ((1, 9), (256, 2304)),
    ],
)
def test_a_cover_keeps_the_proportions(size: tuple[int, int], resized: tuple[int, int]) -> None:
    assert Cover(256, 256).size(*size) == resized


def test_a_cover_covers() -> None:
    for height in range(1, 40):
        for width in range(1, 40):
            scale = max(Fraction(10, height), Fraction(17, width))
            assert Cover(10, 17).size(height, width) == (height * scale // 1, width * scale // 1)
    assert Stretch(3, 4).size(90, 90) == (3, 4)


@pytest.mark.parametrize(("height", "even", "down"), [(4, 1, 1), (5, 2, 1), (7, 2, 2), (1, 0, -1)])
def test_half_a_pixel_goes_where_it_should(height: int, even: int, down: int) -> None:
    assert Middle(2, 2).corner(height, 2) == (even, 0)
    assert Middle(2, 2, rounds_down=True).corner(height, 2) == (down, 0)
    assert Middle(2, 2).corner(2, height) == (0, even)
    assert Middle(2, 2, rounds_down=True).corner(2, height) == (0, down)


@pytest.mark.parametrize("resample", [Filter.LANCZOS, Filter.BILINEAR, Filter.BICUBIC])
@pytest.mark.parametrize("sizes", [(90, 130), (130, 91), (3, 300), (300, 2), (17, 17)])
@pytest.mark.parametrize(
    ("cover", "crop"), [((36, 36), (32, 32)), ((10, 20), (31, 9)), ((20, 10), (9, 31))]
)
def test_the_middle_is_that_of_the_whole_picture_resized(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resample: Filter,
    sizes: tuple[int, int],
    cover: tuple[int, int],
    crop: tuple[int, int],
) -> None:
    steps = ImageSteps(Cover(*cover), Middle(*crop), resample, 1.0, (0.0,), (1.0,))
    path = saved(tmp_path, image(*sizes))
    whole = read_image(path, 3, steps).values
    monkeypatch.setattr(images, "MOST_RESIZED", 0)
    middle = read_image(path, 3, steps).values
    assert np.abs(whole - middle).max() <= 1
    assert np.mean(whole != middle) < 0.1


def test_what_a_side_shows_lies_within_it() -> None:
    """Though 187 / (187 / 3) is more than 3."""
    for old in range(1, 60):
        for new in (1, 2, 3, old, 7 * old, 187):
            for corner, length in ((0, new), (-2, new + 5), (new // 3, max(new // 2, 1))):
                found = part_of_side(old, new, corner, length)
                assert 0 <= found.first < found.last <= old
                assert 0 <= found.start < found.stop <= found.last - found.first
                assert found.offset == min(0, corner)
                assert found.pixels == min(corner + length, new) - max(corner, 0)
                assert found.first + found.start == pytest.approx(max(corner, 0) * old / new)


def test_a_picture_is_fed_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, image(30, 60))
    steps = replace(WHOLE, resize=Cover(10, 10))
    monkeypatch.setattr(images, "MOST_FED", 10 * 20)
    assert read_image(path, 3, steps).values.shape == (3, 10, 20)
    monkeypatch.setattr(images, "MOST_FED", 10 * 20 - 1)
    with pytest.raises(ProblemError, match="E0530"):
        read_image(path, 3, steps)
    assert read_image(path, 3, WHOLE).values.shape == (3, 30, 60)


@pytest.mark.parametrize("sizes", [(20_000, 1), (1, 65_535), (30, 60_000)])
@pytest.mark.parametrize("colors", [1, 3])
def test_no_more_is_resized_than_is_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], colors: int
) -> None:
    """An image of a few bytes that covers 256 x 256 only where it is very long."""
    made: list[int] = []
    resize = Image.Image.resize

    def recorded(
        self: Image.Image,
        size: tuple[int, int],
        resample: int,
        box: tuple[float, float, float, float] | None = None,
    ) -> Image.Image:
        made.append(size[0] * size[1])
        return resize(self, size, resample, box)

    monkeypatch.setattr(Image.Image, "resize", recorded)
    steps = ImageSteps(Cover(256, 256), Middle(224, 224), Filter.BILINEAR, 1.0, (0.0,), (1.0,))
    path = saved(tmp_path, Image.new("RGB", (sizes[1], sizes[0]), (9, 9, 9)))
    values = read_image(path, colors, steps).values
    np.testing.assert_array_equal(values, np.full((colors, 224, 224), 9))
    assert max(made) <= images.MOST_RESIZED


def test_a_size_that_is_absurd_is_refused_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, Image.new("RGB", (1, 70_000)))
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("it is decoded"))
    with pytest.raises(ProblemError, match="E0530") as caught:
        read_image(path, 3, WHOLE)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason == "it is 70000 pixels high and 1 wide, more than 65535"


def test_a_picture_that_would_be_fed_too_large_is_refused(tmp_path: Path) -> None:
    steps = replace(WHOLE, resize=Cover(256, 256))
    with pytest.raises(ProblemError, match="E0530") as caught:
        read_image(saved(tmp_path, Image.new("RGB", (1, 20_000))), 3, steps)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.startswith("20000 x 1 pixels would become 5120000 x 256")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    noise = tmp_path / "noise.png"
    noise.write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    short = saved(tmp_path, image(50, 70), "short.png")
    short.write_bytes(short.read_bytes()[:100])
    deep = tmp_path / "deep.png"
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(deep)
    for path in (noise, short, deep):
        with pytest.raises(ProblemError, match="E0530"):
            read_image(path, 3, WHOLE)
    with pytest.raises(ProblemError, match="E0533"):
        read_image(tmp_path / "no.png", 3, WHOLE)


@pytest.mark.parametrize("suffix", images.SUFFIXES)
def test_nothing_but_the_formats_of_the_suffixes_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """PostScript, which Pillow gives to Ghostscript, and formats that nobody asked for."""
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("it starts a process"))
    monkeypatch.setattr("os.system", lambda *_: pytest.fail("it starts a process"))
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/bin/gs")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(x) (w) file\nshowpage\n"
    (tmp_path / f"eps{suffix}").write_bytes(script)
    others = [tmp_path / f"eps{suffix}"]
    for kind in ("PPM", "TGA", "ICO", "PCX", "SGI"):
        others.append(tmp_path / f"{kind}{suffix}")
        image(8, 8).save(others[-1], kind)
    for path in others:
        with pytest.raises(ProblemError, match="E0530") as caught:
            read_image(path, 3, WHOLE)
        assert isinstance(caught.value.problem, UnreadableFile)
        assert caught.value.problem.reason == "it is no PNG, JPEG, WEBP, BMP, GIF or TIFF"
    for kind in images.FORMATS:  # whatever they are called: JPEGs are often named .png
        image(8, 8).save(tmp_path / f"fine{suffix}", kind)
        assert read_image(tmp_path / f"fine{suffix}", 3, WHOLE).values.shape == (3, 8, 8)


@pytest.mark.parametrize("limit", [100, 1000])
def test_a_picture_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, image(40, 40))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(ProblemError) as caught:
        read_image(path, 3, WHOLE)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "decompression bomb" in caught.value.problem.reason


# --- who has a say -------------------------------------------------------------------------------


def steps(choices: Choices, wanted: TensorType = COLOUR) -> ImageSteps:
    found = choices.image_steps(wanted)
    assert found is not None
    return found.steps


def test_imagenet_s_habits_are_the_default() -> None:
    assert steps(Choices()) == ImageSteps(
        Cover(256, 256), Middle(224, 224), Filter.BILINEAR, 1 / 255, IMAGENET_MEAN, IMAGENET_STD
    )


def test_what_is_done_to_a_picture_is_said() -> None:
    seen = replace(WHOLE, resize=Cover(9, 8), crop=Middle(8, 7), filter=Filter.BOX)
    ends = {
        (1 / 255, (0,), (1,)): "/ 255",
        (0.5, (0,), (1, 1, 1)): "* 0.5",
        (1 / 255, (0, 0.25, 0), (1,)): "/ 255, mean 0 0.25 0, std 1",
        (1 / 255, (0,), (1, 2, 1)): "/ 255, mean 0, std 1 2 1",
    }
    for (scale, mean, std), said in ends.items():
        before = f"{Cover(9, 8)} (box), {Middle(8, 7)}"
        assert str(replace(seen, scale=scale, mean=mean, std=std)) == f"{before}, {said}"
        bare = replace(seen, resize=None, crop=None, scale=scale, mean=mean, std=std)
        assert str(bare) == said


def test_a_model_that_demands_a_size_sees_the_whole_picture() -> None:
    grey = TensorType(DType.F32, (N, 1, 8, 12))
    assert steps(Choices(), grey) == replace(WHOLE, resize=Cover(8, 12), crop=Middle(8, 12))
    for half in (TensorType(DType.F32, (N, 3, 8, W)), TensorType(DType.F32, (N, 3, H, 12))):
        assert steps(Choices(), half) == steps(Choices())


@pytest.mark.parametrize("content", ["[" * 200_000, "{", "[]", '{"size": "large"}'])
def test_a_file_that_is_no_configuration_is_told(content: str, tmp_path: Path) -> None:
    path = tmp_path / preprocessor_config.NAME
    path.write_text(content)
    with pytest.raises(ProblemError, match="E0530"):
        preprocessor_config.image_steps(path)
    with pytest.raises(ProblemError) as caught:
        preprocessor_config.image_steps(tmp_path)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.file == tmp_path


def test_the_command_line_goes_before_the_file_beside_the_weights(tmp_path: Path) -> None:
    config = tmp_path / preprocessor_config.NAME
    config.write_text('{"size": 32, "image_mean": [0.1], "image_std": [0.2], "resample": 0}')
    told = Choices(config=config)
    assert steps(told) == ImageSteps(Stretch(32, 32), None, Filter.NEAREST, 1 / 255, (0.1,), (0.2,))
    assert steps(replace(told, crop=0.5)).resize == Cover(64, 64)
    assert steps(replace(told, crop=0.5)).crop == Middle(32, 32)
    both = steps(replace(told, size=40, crop=0.5))
    assert (both.resize, both.crop) == (Cover(80, 80), Middle(40, 40))
    changed = steps(replace(told, size=40, mean=(0.5,), filter=Filter.BOX))
    assert (changed.resize, changed.crop) == (Stretch(40, 40), None)
    assert (changed.mean, changed.std, changed.filter) == ((0.5,), (0.2,), Filter.BOX)
    assert steps(replace(told, std=(0.7,))) == replace(steps(told), std=(0.7,))
    config.write_text('{"do_resize": false}')
    assert steps(told).crop is None
    assert (steps(replace(told, crop=0.5)).resize, steps(replace(told, crop=0.5)).crop) == (
        Cover(448, 448),
        Middle(224, 224),
    )
    cropped = '"do_center_crop": true, "crop_size": {"height": 24, "width": 24}'
    config.write_text(f'{{"size": {{"shortest_edge": 32}}, {cropped}}}')
    assert steps(told).crop == Middle(24, 24, rounds_down=True)
    larger = steps(replace(told, size=48))
    assert larger.crop == Middle(48, 48, rounds_down=True)
    assert (steps(told).resize, larger.resize) == (Cover(32, 32), Cover(64, 64))


@pytest.mark.parametrize(
    "wanted",
    [
        TensorType(DType.I32, (N, 3, H, W)),
        TensorType(DType.F32, (N, 4, H, W)),
        TensorType(DType.F32, (N, 3, H)),
    ],
)
def test_an_input_that_takes_no_picture(wanted: TensorType) -> None:
    assert Choices().image_steps(wanted) is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, replace(WHOLE, resize=Stretch(224, 224), mean=(0.5,) * 3, std=(0.5,) * 3)),
        ({"do_resize": False, "do_normalize": False, "do_rescale": False}, replace(WHOLE, scale=1)),
        (
            {"do_resize": False, "do_normalize": False, "do_pad": False, "pad_size": None},
            WHOLE,
        ),
        (
            {"do_resize": False, "do_normalize": False, "do_center_crop": True, "crop_size": 9},
            replace(WHOLE, crop=Middle(9, 9, rounds_down=True)),
        ),
        (
            {"do_normalize": False, "do_center_crop": True, "size": 30},
            replace(WHOLE, resize=Cover(30, 30), crop=Middle(30, 30, rounds_down=True)),
        ),
        (
            {"do_normalize": False, "do_center_crop": True, "size": {"height": 30, "width": 20}},
            replace(WHOLE, resize=Stretch(30, 20), crop=Middle(30, 20, rounds_down=True)),
        ),
        (
            {"do_normalize": False, "crop_pct": 0.5, "size": {"height": 30, "width": 20}},
            replace(WHOLE, resize=Stretch(30, 20)),
        ),
        (
            {"do_normalize": False, "do_resize": False, "crop_pct": 0.5, "size": 30},
            WHOLE,
        ),
        (
            {"do_normalize": False, "crop_pct": 0.5, "size": 383},
            replace(WHOLE, resize=Cover(766, 766), crop=Middle(383, 383, rounds_down=True)),
        ),
        (
            {"size": 384, "crop_pct": 1.0, "do_normalize": False, "image_processor_type": "X"},
            replace(WHOLE, resize=Stretch(384, 384), crop=Middle(384, 384, rounds_down=True)),
        ),
    ],
)
def test_what_a_file_says(tmp_path: Path, config: object, expected: ImageSteps) -> None:
    (tmp_path / preprocessor_config.NAME).write_text(json.dumps(config))
    assert preprocessor_config.image_steps(tmp_path / preprocessor_config.NAME) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "it is not JSON"),
        ("[]", "``: "),
        ('{"do_pad": true}', "it asks for `do_pad`, which is not done here"),
        ('{"image_std": [0]}', "`image_std.0`"),
        ('{"size": {"longest_edge": 5}}', "`size"),
        ('{"size": {"height": 5}}', "a size has neither"),
        ('{"size": {"width": 5}}', "a size has neither"),
        ('{"size": {"shortest_edge": 5}, "do_center_crop": true}', "a size has neither"),
        ('{"resample": 77}', "`resample`"),
    ],
)
def test_a_file_that_asks_for_something_else_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / preprocessor_config.NAME).write_text(text)
    with pytest.raises(ProblemError) as caught:
        preprocessor_config.image_steps(tmp_path / preprocessor_config.NAME)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.startswith(reason)


def test_the_file_is_looked_for_beside_the_weights(tmp_path: Path) -> None:
    assert preprocessor_config.find(tmp_path / "model.safetensors") is None
    (tmp_path / preprocessor_config.NAME).write_text("{}")
    assert (
        preprocessor_config.find(tmp_path / "model.safetensors")
        == tmp_path / preprocessor_config.NAME
    )
    assert preprocessor_config.find(tmp_path) == tmp_path / preprocessor_config.NAME
