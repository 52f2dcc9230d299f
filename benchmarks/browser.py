"""What a browser downloads until a model's first answer, and how long that takes.

Beside ONNX Runtime Web:

    npm install --prefix FOLDER onnxruntime-web
    python -m benchmarks.browser FOLDER/node_modules/onnxruntime-web/dist [MODEL ...]

The same model with the same weights, by our npm package from its `.mgb` and by ONNX Runtime Web
from our ONNX export, on WebGPU and as WebAssembly. Each run is a new Chromium without caches, which
loads everything from a server of this machine; the time is from navigation to the first answer.
Without a GPU, Chromium's is a software one. Needs Chromium and `npm run build` in runtime/web.
"""

import gzip
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from playwright.sync_api import Playwright, sync_playwright

import meganeura
from meganeura.cli.app import run as command
from meganeura_dsl.ir.graph import Array
from tests.chromium import FLAGS, chromium

RUNTIME = Path(__file__).parents[1] / "runtime" / "web" / "dist"
RUNS = 3
PATIENCE = 600_000
"""Milliseconds until a run must have its answer."""
CONFIG = {"d": 64, "layers": 4, "heads": 4, "image": 32, "patch": 4, "classes": 10}
MODELS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "digits_cnn": ({}, {"n": 1, "h": 8, "w": 8}),
    "vit_tiny_patch16_224": (CONFIG, {"n": 1}),
}
"""Arguments and sizes: a software adapter has time for little."""

OURS = """
import { Model } from "/runtime/index.js";
const model = await Model.open("/model.mgb");
const { output } = await model.run({ [model.inputs[0].name]: input });
answer(output.data);
"""
THEIRS = """
import * as ort from "/ort/ort.PROVIDER.min.mjs";
ort.env.wasm.wasmPaths = "/ort/";
const session = await ort.InferenceSession.create("/model.onnx", {
  executionProviders: ["PROVIDER"], freeDimensionOverrides: SIZES,
});
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", input, SHAPE) };
const found = await session.run(feeds);
answer(found[session.outputNames[0]].data);
"""
PAGE = """<!doctype html><link rel="icon" href="data:,"><script type="module">
const input = Float32Array.from({ length: COUNT }, (_, i) => (i % 17) / 17);
const answer = (data) => window.found = { ms: performance.now(), data: [...data] };
addEventListener("unhandledrejection", ({ reason }) => window.found = { error: String(reason) });
SCRIPT
</script>"""


@dataclass(frozen=True)
class Measured:
    """One way to a first answer."""

    title: str
    requests: int
    bytes: int
    """As they are; `packed` is what a server sends that compresses."""
    packed: int
    seconds: float


@contextmanager
def serving(folder: Path, sent: list[Path]) -> Iterator[str]:
    """A server of a folder that notes which files it sends."""

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012 - of the class it overrides
            **SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".wasm": "application/wasm",
        }

        def do_GET(self) -> None:
            path = Path(self.translate_path(self.path))
            if path.is_file():
                sent.append(path)
            super().do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def answered(playwright: Playwright, address: str, wanted: Array) -> float:
    """Seconds from navigation to an answer, which has to be right."""
    browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
    page = browser.new_page()
    page.goto(address)
    page.wait_for_function("window.found", timeout=PATIENCE)
    found = cast("dict[str, Any]", page.evaluate("window.found"))
    browser.close()
    if "error" in found:
        raise SystemExit(f"{address}: {found['error']}")
    np.testing.assert_allclose(found["data"], wanted.ravel(), rtol=1e-3, atol=1e-4)
    return float(found["ms"]) / 1000


def measure(playwright: Playwright, folder: Path, title: str, page: str, wanted: Array) -> Measured:
    """The median of some runs of a page."""
    (folder / "index.html").write_text(page)
    sent: list[Path] = []
    seconds: list[float] = []
    with serving(folder, sent) as address:
        for _ in range(RUNS):
            sent.clear()
            seconds.append(answered(playwright, f"{address}/index.html", wanted))
    contents = [path.read_bytes() for path in sent]
    packed = sum(len(gzip.compress(content)) for content in contents)
    return Measured(title, len(sent), sum(map(len, contents)), packed, median(seconds))


def compare(playwright: Playwright, name: str, ort: Path) -> list[Measured]:
    """One model in all ways."""
    config, sizes = MODELS[name]
    model = meganeura.load(name).model(seed=0, config=config)
    ((feed, of),) = model.inputs.items()
    shape = [sizes.get(str(size), size) for size in of.shape]
    count = int(np.prod(cast("list[int]", shape)))
    image = (np.arange(count) % 17 / 17).astype(np.float32).reshape(cast("list[int]", shape))
    wanted = model.run({feed: image}, device="cpu")["output"]
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "runtime").symlink_to(RUNTIME)
        (folder / "ort").symlink_to(ort)
        model.save(folder / "model.safetensors")
        model.export(folder / "model.onnx")
        given = [word for size in sizes.items() for word in ("--size", "{}={}".format(*size))]
        given += [word for each in config.items() for word in ("--set", "{}={}".format(*each))]
        weights = ("--weights", str(folder / "model.safetensors"))
        assert command(["build", name, *weights, *given, "-o", str(folder / "model.mgb")]) == 0
        page = PAGE.replace("COUNT", str(count))
        scripts = {"meganeura": OURS}
        for provider in ("webgpu", "wasm"):
            script = THEIRS.replace("PROVIDER", provider).replace("SHAPE", json.dumps(shape))
            scripts[f"ONNX Runtime Web, {provider}"] = script.replace("SIZES", json.dumps(sizes))
        return [
            measure(playwright, folder, title, page.replace("SCRIPT", script), wanted)
            for title, script in scripts.items()
        ]


def main() -> None:
    """Print a table."""
    ort = Path(sys.argv[1]).resolve()
    package = json.loads((ort.parent / "package.json").read_text())
    print(f"meganeura {version('meganeura')}, onnxruntime-web {package['version']}; {RUNS} runs")
    print("| model | by | requests | MiB | MiB, gzip | first answer |\n|---|---|---|---|---|---|")
    with sync_playwright() as playwright:
        for name in sys.argv[2:] or MODELS:
            for each in compare(playwright, name, ort):
                mebibytes = f"{each.bytes / 2**20:.2f} | {each.packed / 2**20:.2f}"
                told = f"| {name} | {each.title} | {each.requests} | {mebibytes}"
                print(f"{told} | {each.seconds:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
