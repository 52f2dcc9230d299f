"""Files as inputs of a model, by the model's declarations and the user's choices.

`read_inputs.txt` has of each combination what is reported and the type, mean and spread of each
tensor, or why the files are refused.

`python -m tests.runtime.infer.read_inputs` writes the file anew; read the difference before you
keep it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from zlib import crc32

import numpy as np
from PIL import Image

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.infer.input_files import Given, Reader
from meganeura_runtime.io.preprocess.images import Filter
from meganeura_runtime.io.preprocess.input_transforms import Choices

FILE = Path(__file__).with_suffix(".txt")
N, H, W = dim("n"), dim("h"), dim("w")
COLORED = TensorType(DType.F32, (N, 3, H, W))
GREY = TensorType(DType.F32, (N, 1, 8, 6))
VECTOR = TensorType(DType.F32, (N, 4))
DECLARED: Mapping[str, Mapping[str, TensorType]] = {
    "colored": {"image": COLORED},
    "grey": {"image": GREY},
    "open": {"image": TensorType(DType.F16, (N, dim("c"), H, W))},
    "four colors": {"image": TensorType(DType.F32, (N, 4, H, W))},
    "whole numbers": {"image": TensorType(DType.I32, (N, 3, H, W))},
    "vector": {"x": VECTOR},
    "two": {"image": COLORED, "x": VECTOR},
    "drawn": {"image": COLORED, COUNTER: TensorType(DType.U32, (2,))},
    "drawn alone": {COUNTER: TensorType(DType.U32, (2,))},
}
GIVEN: Sequence[Sequence[str]] = (
    ("a.png",), ("image=a.png",), ("a.png", "b.PNG"), ("a.png", "a.png"), ("a.png", "wide.png"),
    ("grey.png",), ("x.npy",), ("x=x.npy",), ("x.npy", "x.npy"), ("a.png", "x.npy"), ("one.npz",),
    ("x=one.npz",), ("x=both.npz",), ("image=a.png", "x=x.npy"), ("both.npz",),
    ("both.npz", "x=x.npy"), ("more.npz",), ("y=x.npy",), ("x.txt",), ("none.png",), ("bad.png",),
    ("counter.npz", "image=a.png"), (),
)  # fmt: skip
CHOICES: Mapping[str, Mapping[str, object]] = {
    "size": {"size": 6},
    "size and crop": {"size": 6, "crop": 0.5},
    "crop": {"crop": 0.5},
    "mean": {"mean": (0.5,)},
    "means": {"mean": (0.1, 0.2, 0.3), "std": (2.0,)},
    "two means": {"mean": (0.1, 0.2)},
    "two spreads": {"std": (0.1, 0.2)},
    "resample": {"filter": Filter.NEAREST, "size": 5},
    "seconds": {"seconds": 2.0},
    "config": {"config": "preprocessor_config.json"},
    "config and size": {"config": "preprocessor_config.json", "size": 5},
    "config and mean": {"config": "preprocessor_config.json", "std": (3.0,)},
}
CONFIG = {
    "do_resize": True, "size": {"shortest_edge": 10}, "do_center_crop": True,
    "crop_size": {"height": 8, "width": 8}, "do_rescale": True, "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.5, 0.25], "resample": 3,
}  # fmt: skip


def _write(folder: Path) -> None:
    rows = np.arange(16 * 12 * 3, dtype=np.int64).reshape(16, 12, 3)
    colors = (rows * 7 % 256).astype(np.uint8)
    for name, array in (
        ("a.png", colors), ("b.PNG", colors[::-1]), ("wide.png", colors.transpose(1, 0, 2)),
        ("grey.png", colors[:, :, 0]),
    ):  # fmt: skip
        Image.fromarray(np.ascontiguousarray(array)).save(folder / name)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    images = np.zeros((1, 3, 4, 4), np.float32)
    np.save(folder / "x.npy", x)
    np.savez(folder / "one.npz", other=x)
    np.savez(folder / "both.npz", x=x, image=images)
    np.savez(folder / "more.npz", x=x, image=images, y=x)
    np.savez(folder / "counter.npz", **cast("Any", {COUNTER: np.array([1, 2], np.uint32)}))
    (folder / "x.txt").write_text("1 2 3 4")
    (folder / "bad.png").write_bytes(b"no picture")
    (folder / "preprocessor_config.json").write_text(json.dumps(CONFIG))


def described() -> Iterator[str]:
    """All lines of the file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder)
        for given in GIVEN:
            for declared in DECLARED:
                yield from _shown(folder, declared, given, "")
        for choice in CHOICES:
            for declared in ("colored", "grey", "vector", "two"):
                for given in (("image=a.png", "image=grey.png"), ("x=x.npy",), ("both.npz",)):
                    yield from _shown(folder, declared, given, choice)


def _shown(folder: Path, declared: str, given: Sequence[str], choice: str) -> Iterator[str]:
    said = dict(CHOICES[choice]) if choice else {}
    if "config" in said:
        said["config"] = folder / str(said["config"])
    told: list[str] = []
    paths = [Given.parse(text) for text in given]
    files = [Given(each.name, folder / each.path) for each in paths]
    reader = Reader(DECLARED[declared], Choices(**said), told.append, seed=7)  # pyright: ignore[reportArgumentType] - as the table has them
    try:
        found = reader.read(files)
        told += [_tensor(name, np.asarray(each.bits)) for name, each in found.items()]
    except ProblemError as error:
        report = error.problem.report()
        told += [report.headline, *(each.text for each in report.remarks), str(report.help)]
    text = "\n".join(told).replace(f"{folder}/", "")
    title = f"{' '.join(given)} for {declared} {choice}".rstrip()
    yield f"{title}: {crc32(text.encode()):08x} {text.partition(chr(10))[0][:70]}".rstrip()


def _tensor(name: str, values: np.ndarray) -> str:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType] - of any type
    numbers = values.astype(np.float64)
    return f"{name}: {values.dtype}{list(values.shape)} {numbers.mean():.2f} {numbers.std():.2f}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
