"""The file of a page: a template with the runtime in it, and what this page is about.

The templates beside this module are built from `runtime/web`.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.page.forms import InputForm
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.tensors.safetensors_file import write_tensors

TEMPLATE, WRITING = "page.html", "generation.html"
"""The pages of a model or a training step, and of a model that writes texts."""
READER = "wordpiece.js"
"""The script that reads texts, for pages with a text as input."""
FORM = "{{FORM}}"
PAYLOAD = "{{PAYLOAD}}"
SUFFIX = ".mgb"


@dataclass(frozen=True)
class Page:
    """A compiled model, and how a page shows it."""

    artefact: Artefact
    title: str
    inputs: Mapping[str, InputForm]
    labels: Sequence[str] = ()
    data: Mapping[str, Array] | None = None
    """The examples that the page holds, too."""
    tokenizer: str | None = None
    """The text of the tokenizer.json by which the page reads texts."""
    is_split: bool = False
    """True if the model lies in a file beside the page."""

    def write(self, path: Path) -> tuple[Path, ...]:
        """Write the page, each file whole or not at all; the files. Raises `ProblemError`."""
        beside = path.with_suffix(SUFFIX) if self.is_split else None
        form = {
            "title": self.title,
            "inputs": {name: asdict(each) for name, each in self.inputs.items()},
            "labels": list(self.labels),
            "beside": None if beside is None else beside.name,
        }
        parts: list[str] = []
        if beside is None:
            parts.append(_held("meganeura-model", _content(self.artefact.write)))
        else:
            self.artefact.write(beside)
        if self.data is not None:
            data = _content(partial(write_tensors, tensors=self.data, metadata={}))
            parts.append(_held("meganeura-data", data))
        if self.tokenizer is not None:
            kind = 'type="application/json" id="meganeura-tokenizer"'
            parts.append(f"<script {kind}>{_in_html(self.tokenizer)}</script>")
            parts.append(f"<script>{_template(READER)}</script>")
        name = TEMPLATE if self.artefact.generation is None else WRITING
        before, _, rest = _template(name).partition(FORM)
        between, _, after = rest.partition(PAYLOAD)
        text = "".join([before, _in_html(json.dumps(form)), between, "\n".join(parts), after])
        write_text(path, text)
        return (path,) if beside is None else (path, beside)


def _template(name: str) -> str:
    return files("meganeura_runtime.export.page").joinpath(name).read_text("utf-8")


def _content(write: Callable[[Path], None]) -> bytes:
    """Returns the bytes that a function writes into a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "content"
        write(file)
        return file.read_bytes()


def _held(name: str, content: bytes) -> str:
    """Bytes that a page holds, compressed, in an element that no browser runs."""
    kind = 'type="application/gzip;base64"'
    packed = gzip.compress(content, mtime=0)
    return f'<script {kind} id="{name}">{b64encode(packed).decode()}</script>'


def _in_html(text: str) -> str:
    """JSON that can stand in HTML."""
    return text.replace("<", "\\u003c")
