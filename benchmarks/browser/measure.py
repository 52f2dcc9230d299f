"""What a browser downloads until a model's first answer, and how long that takes.

    python benchmarks/browser/measure.py FOLDER [--browser PROGRAM] [--flag=--use-angle=vulkan ...]

FOLDER is what `benchmarks/browser/prepare.py` wrote. Each model is run by our npm package and,
where FOLDER has them, by ONNX Runtime Web and by tinygrad's export. A run is a new browser without
caches, which loads everything from a server of this machine; its time is from navigation to the
first answer, which has to be right. Then come later answers. Last, a step trains, with the losses
of the reference. Needs nothing but Python and a browser of Chromium's kind, so that it can be taken
to the machine with the GPU.
"""

import argparse
import gzip
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import F_DUPFD, fcntl
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from math import prod
from pathlib import Path
from select import select
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

ORT = Path("node_modules/onnxruntime-web")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
LATER = 20
"""Answers after the first, whose median is shown."""

INPUT = "const input = Float32Array.from({ length: COUNT }, (_, i) => (i % 17) / 17);"
OURS = """
import { Model } from "/runtime/index.js";
const model = await Model.open("model.mgb");
await measure(async () => (await model.run({ [model.inputs[0].name]: input })).output.data);
"""
ONNX_RUNTIME = """
import * as ort from "/node_modules/onnxruntime-web/dist/ort.PROVIDER.min.mjs";
ort.env.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
const session = await ort.InferenceSession.create("model.onnx", {
  executionProviders: ["PROVIDER"], freeDimensionOverrides: SIZES,
});
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", input, SHAPE) };
await measure(async () => (await session.run(feeds))[session.outputNames[0]].data);
"""
TINYGRAD = """
import model from "./tinygrad.js";
const adapter = await navigator.gpu.requestAdapter();
const device = await adapter.requestDevice();
const run = await model.load(device, "tinygrad.safetensors");
await measure(async () => (await run(input))[0]);
"""
DEVICE = """
const adapter = await navigator.gpu.requestAdapter();
const times = [performance.now()];
const device = await adapter.requestDevice();
times.push(performance.now());
const landing = device.createBuffer({ size: 4, usage: 9 });
await landing.mapAsync(1);
times.push(performance.now());
window.found = { times };
"""
TRAINING = """
import { Training, readTensors } from "/runtime/index.js";
const training = await Training.open("train.mgb");
const file = await fetch("data.safetensors").then((answer) => answer.arrayBuffer());
training.useData(await readTensors("data.safetensors", new Uint8Array(file)));
const [losses, times] = [[], []];
await training.run({ onStep: ({ loss }) => { losses.push(loss); times.push(performance.now()); } });
window.found = { losses, first: times[0], each: (times.at(-1) - times[0]) / (times.length - 1) };
"""
PAGE = """<!doctype html><link rel="icon" href="data:,"><script type="module">
addEventListener("unhandledrejection", ({ reason }) => window.found = { error: String(reason) });
addEventListener("error", ({ message }) => window.found = { error: message });
window.measure = async (run) => {
  const data = await run();
  const times = [performance.now()];
  for (let i = 0; i < LATER; i++) {
    await run();
    times.push(performance.now());
  }
  window.found = { data: [...data], times };
};
</script><script type="module">
SCRIPT
</script>"""
ADAPTER = """(async () => {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return "no adapter";
  const { vendor, architecture, device, description } = adapter.info;
  return [vendor, architecture, device, description].filter(Boolean).join(" ");
})()"""


class Browser:
    """A new browser without caches, driven by its DevTools protocol through two pipes."""

    def __init__(self, program: str, flags: Sequence[str], log: Path) -> None:
        """Start it; `log` gets what it says of itself."""
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._write = os.pipe()
        self._read, answers = os.pipe()
        ends = [fcntl(end, F_DUPFD, 10) for end in (theirs, answers)]

        def place() -> None:
            """Chromium takes the pipes as 3 and 4, which they may be already, in another order."""
            for number, end in enumerate(ends, 3):
                os.dup2(end, number)

        words = [program, *flags, f"--user-data-dir={self._folder.name}"]
        words += ["--remote-debugging-pipe", "about:blank"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                words,
                preexec_fn=place,  # noqa: PLW1509 - nothing else would place them
                pass_fds=(3, 4),
                stderr=errors,
                stdout=subprocess.DEVNULL,
            )
        for end in (theirs, answers, *ends):
            os.close(end)
        self._rest, self._last, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """The answer to one command of the protocol."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select([self._read], [], [], 60)[0]:
                raise SystemExit("the browser says nothing for a minute")
            read = os.read(self._read, 1 << 20)
            if not read:
                raise SystemExit(f"the browser ended with {self._process.wait()}")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - of the page
        """The value of an expression in the page."""
        how = {"awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", expression=expression, **how)
        return found["result"].get("value")

    def until(self, expression: str, patience: float) -> Any:  # noqa: ANN401 - of the page
        """The value of an expression once it is not null."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = self.evaluate(
                f"(() => {{ try {{ return {expression} }} catch {{}} }})() ?? null"
            )
            if found is not None:
                return found
            time.sleep(0.05)
        raise SystemExit(f"no answer within {patience:.0f} s")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()


@dataclass(frozen=True)
class Launcher:
    """What starts browsers."""

    program: str
    flags: tuple[str, ...]
    log: Path
    patience: float

    @contextmanager
    def browser(self) -> Iterator[Browser]:
        """One of them."""
        made = Browser(self.program, self.flags, self.log)
        try:
            yield made
        finally:
            made.close()

    def found(self, address: str) -> dict[str, Any]:
        """What a page finds."""
        with self.browser() as browser:
            browser.call("Page.navigate", url=address)
            found = browser.until("window.found", self.patience)
        if "error" in found:
            raise RuntimeError(found["error"])
        return found

    def answers(self, address: str, wanted: Sequence[float]) -> list[float]:
        """When a page had its answers, in milliseconds since navigation; the first is right."""
        found = self.found(address)
        if not is_near(found["data"], wanted):
            raise RuntimeError(f"a wrong answer: {found['data'][:10]}")
        return found["times"]


@contextmanager
def serving(folder: Path, sent: list[Path]) -> Iterator[str]:
    """A server of a folder that notes which files it sends."""

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012 - of the class it overrides
            **SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".js": "text/javascript",
            ".wasm": "application/wasm",
        }

        def do_GET(self) -> None:
            path = Path(self.translate_path(self.path))
            if path.is_file():
                sent.append(path)
            super().do_GET()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def contenders(folder: Path, model: Path) -> dict[str, str]:
    """The scripts of all ways to an answer."""
    ways = {"meganeura": OURS}
    if (folder / ORT).exists():
        for provider, title in (("webgpu", "WebGPU"), ("wasm", "WebAssembly")):
            ways[f"ONNX Runtime Web, {title}"] = ONNX_RUNTIME.replace("PROVIDER", provider)
    if (model / "tinygrad.js").exists():
        ways["tinygrad"] = TINYGRAD
    return ways


def is_near(data: Sequence[float], wanted: Sequence[float]) -> bool:
    """Whether an answer is right."""
    most = max(map(abs, wanted))
    pairs = zip(data, wanted, strict=True)
    return all(abs(one - other) <= 1e-3 * most for one, other in pairs)


def measure(launcher: Launcher, folder: Path, model: Path, runs: int) -> None:
    """Print the rows of one model."""
    case = json.loads((model / "case.json").read_text())
    count = prod(case["shape"])
    for title, script in contenders(folder, model).items():
        text = script.replace("SHAPE", json.dumps(case["shape"]))
        text = INPUT.replace("COUNT", str(count)) + text.replace("SIZES", json.dumps(case["sizes"]))
        page = PAGE.replace("LATER", str(LATER)).replace("SCRIPT", text)
        (model / "index.html").write_text(page)
        sent: list[Path] = []
        first: list[float] = []
        later: list[float] = []
        try:
            with serving(folder, sent) as address:
                for _ in range(runs):
                    sent.clear()
                    times = launcher.answers(f"{address}/{model.name}/index.html", case["wanted"])
                    first.append(times[0])
                    later += [end - start for start, end in pairwise(times)]
        except RuntimeError as error:
            print(f"| {case['name']} | {title} | {error} |", flush=True)
            continue
        contents = [path.read_bytes() for path in sent]
        packed = sum(len(gzip.compress(content)) for content in contents)
        size = sum(map(len, contents))
        print(
            f"| {case['name']} | {title} | {size / 2**20:.2f} | {packed / 2**20:.2f} "
            f"| {median(first) / 1000:.2f} s | {median(later):.1f} ms |",
            flush=True,
        )


def device(launcher: Launcher, folder: Path, runs: int) -> None:
    """Print how long a page waits that wants a device and nothing else."""
    (folder / "device.html").write_text(PAGE.replace("SCRIPT", DEVICE))
    with serving(folder, []) as address:
        times = [launcher.found(f"{address}/device.html")["times"] for _ in range(runs)]
    shown = [f"{median(each) / 1000:.2f} s" for each in zip(*times, strict=True)]
    print(f"an adapter after {shown[0]}, a device after {shown[1]}, read from after {shown[2]}")


def train(launcher: Launcher, folder: Path) -> None:
    """Print how a training step does, through the npm package and in the page of one file."""
    wanted = json.loads((folder / "training" / "losses.json").read_text())
    (folder / "training" / "index.html").write_text(PAGE.replace("SCRIPT", TRAINING))
    with serving(folder, []) as address:
        found = launcher.found(f"{address}/training/index.html")
    pairs = zip(found["losses"], wanted, strict=True)
    worst = max(abs(loss - right) / abs(right) for loss, right in pairs)
    print(f"training digits_mlp: {len(wanted)} steps, losses within {worst:.1e} of the reference,")
    print(f"first after {found['first'] / 1000:.2f} s, then {found['each']:.2f} ms each")
    with launcher.browser() as browser:
        browser.call("Page.navigate", url=(folder / "training" / "train.html").as_uri())
        start = (
            "[...document.querySelectorAll('button')].find(each => each.textContent === 'Train')"
        )
        browser.until(f"{start}.disabled ? null : true", launcher.patience)
        chips = browser.evaluate("document.querySelector('#chips').innerText")
        browser.evaluate(f"{start}.click()")
        steps = f"document.querySelector('[data-step=\"{len(wanted)}\"]') && true"
        browser.until(steps, launcher.patience)
        said = browser.evaluate("document.querySelector('.numbers').innerText")
    print("page of training, from a file:", " / ".join(f"{chips}\n{said}".split("\n")))


def main() -> None:
    """Print the adapter and a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--patience", type=float, default=300)
    parser.add_argument("--adapter", action="store_true", help="print the adapter alone")
    parser.add_argument("--log", type=Path, default=Path(os.devnull))
    given = parser.parse_args()
    folder = given.folder.resolve()
    flags = (*FLAGS, *given.flag)
    launcher = Launcher(given.browser, flags, given.log, given.patience)
    with launcher.browser() as browser, serving(folder, []) as address:
        browser.call("Page.navigate", url=f"{address}/runtime/")
        browser.until("document.body && true", launcher.patience)
        version = browser.evaluate("navigator.userAgent").split("Chrome/")[-1].split()[0]
        print(f"Chromium {version}, adapter: {browser.evaluate(ADAPTER)}", flush=True)
    if given.adapter:
        return
    device(launcher, folder, given.runs)
    names = given.model or [path.parent.name for path in sorted(folder.glob("*/case.json"))]
    print("| model | by | MiB | MiB, gzip | first answer | later ones |\n|---|---|---|---|---|---|")
    for name in names:
        measure(launcher, folder, folder / name, given.runs)
    if (folder / "training").exists():
        train(launcher, folder)


if __name__ == "__main__":
    main()
