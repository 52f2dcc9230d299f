"""The file of a page: what is put into it, as text and whole."""

import json
import re
from base64 import b64decode
from gzip import decompress
from pathlib import Path

import numpy as np

from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.ops import Add, Input
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.mgb.compile import compiled_model
from meganeura_runtime.export.page.forms import (
    BytesForm,
    NumbersForm,
    PictureForm,
    SoundForm,
    input_forms,
)
from meganeura_runtime.export.page.write import Page
from meganeura_runtime.io.preprocess.input_transforms import Choices

HOSTILE = "</script><script>alert(1)</script><!-- {{PAYLOAD}}"


def model() -> Artefact:
    build = Builder()
    doubled = build.add(Add(), *[build.add(Input("x", DType.F32, (3,)))] * 2)
    return compiled_model("net", build.graph({"y": doubled}), {})


def scripts(page: Path) -> dict[str, str]:
    """The elements that hold something, by their ids."""
    text = page.read_text("utf-8")
    return dict(re.findall(r'<script type="[^"]*" id="([^"]*)">(.*?)</script>', text, re.DOTALL))


def test_names_are_text(tmp_path: Path) -> None:
    page = Page(model(), HOSTILE, {HOSTILE: NumbersForm()}, [HOSTILE])
    page.write(tmp_path / "page.html")
    form = json.loads(scripts(tmp_path / "page.html")["meganeura-form"])
    assert (form["title"], form["labels"], [*form["inputs"]]) == (HOSTILE, [HOSTILE], [HOSTILE])
    assert "<script>alert" not in (tmp_path / "page.html").read_text("utf-8")


def test_a_page_holds_its_model_and_its_data(tmp_path: Path) -> None:
    data = {"train.x": np.arange(3, dtype=np.uint8)}
    (file,) = Page(model(), "net", {}, data=data).write(tmp_path / "page.html")
    held = scripts(file)
    (tmp_path / "held.mgb").write_bytes(decompress(b64decode(held["meganeura-model"])))
    assert Artefact.read(tmp_path / "held.mgb").model == "net"
    assert decompress(b64decode(held["meganeura-data"])).endswith(b"\x00\x01\x02")


def test_a_split_page_has_its_model_beside_it(tmp_path: Path) -> None:
    page, beside = Page(model(), "net", {}, is_split=True).write(tmp_path / "page.html")
    assert Artefact.read(beside).model == "net"
    assert json.loads(scripts(page)["meganeura-form"])["beside"] == "page.mgb"
    assert [*scripts(page)] == ["meganeura-form"]


def test_the_interface_follows_from_the_inputs() -> None:
    def form_of(dtype: DType, *shape: int, count: int = 0, batches: bool = False) -> object:
        bounds = {"x": Bound(count)} if count else {}
        of = {"x": TensorType(dtype, shape)}
        return input_forms(of, bounds, Choices(), 16, batches=batches)["x"]

    grey = form_of(DType.F32, 1, 1, 8, 6)
    assert isinstance(grey, PictureForm)
    assert (grey.colors, grey.crop.height, grey.crop.width, grey.scale) == (1, 8, 6, 16 / 255)
    colour = form_of(DType.F32, 1, 3, 224, 224)
    assert isinstance(colour, PictureForm)
    assert (colour.colors, len(colour.mean)) == (3, 3)
    assert isinstance(form_of(DType.F32, 32, 1, 8, 8, batches=True), PictureForm)
    assert form_of(DType.F32, 1, 80, 3000) == SoundForm(80, 3000)
    assert form_of(DType.I32, 1, 64, count=256) == BytesForm()
    for other in (
        form_of(DType.F32, 2, 1, 8, 8),
        form_of(DType.F32, 1, 7, 8, 8),
        form_of(DType.F32, 1, 81, 3000),
        form_of(DType.I32, 1, 64, count=1000),
        form_of(DType.I32, 1, 64),
        form_of(DType.F32),
    ):
        assert other == NumbersForm()
