"""The downloads of a browser until a model's first answer, and the time of it.

    python benchmarks/browser/measure.py FOLDER [--browser PROGRAM] [--flag=--use-angle=vulkan ...]

FOLDER is what `benchmarks/browser/prepare.py` wrote. Each model is run by our npm package, as a
page of one file and, where FOLDER has them, by ONNX Runtime Web and by tinygrad's export. A run is
a new browser without caches, the driver's included, which loads everything from a server of this
machine; its time is from navigation to the first answer, which has to be right. Then come later
answers, and when each stage of the first one began and ended. Next, a step trains, with the losses
of the reference, and a model writes a text. Needs nothing but Python and a browser of Chromium's
kind, so that it can be taken to the machine with the GPU.
"""

import argparse
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from chromium import FLAGS, Launcher, serving

ORT = Path("node_modules/onnxruntime-web")
LATER = 20
"""Answers after the first, whose median is shown."""

INPUT = "const input = Float32Array.from({ length: COUNT }, (_, i) => i % 17);"
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


GENERATION = """
import { Generator } from "/runtime/index.js";
const generator = await Generator.open("page.mgb");
const opened = performance.now();
const rounds = [];
for (let round = 0; round < 2; round++) {
  const [tokens, times] = [[], [performance.now()]];
  for await (const token of generator.tokens(PROMPT, { steps: STEPS })) {
    tokens.push(token);
    times.push(performance.now());
  }
  rounds.push({ tokens, times });
}
window.found = { opened, rounds, bytes: generator.bytes, title: generator.gpu.title };
"""
STAGES = {
    "scripts": ("scripts",),
    "files": ("files",),
    "adapter": ("requestAdapter",),
    "device": ("requestDevice",),
    "modules": ("createShaderModule",),
    "pipelines": ("createComputePipeline", "createComputePipelineAsync"),
    "errors": ("popErrorScope",),
    "steps": ("submit",),
    "reading": ("mapAsync",),
}
"""Stages of a first answer, and what `stages.js` calls what they consist of."""
Spans = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Run:
    """The events of a page in a new browser, in milliseconds since navigation."""

    times: Sequence[float]
    """Of its answers."""
    spans: Spans
    """Begin and end of each part of a stage, up to the first answer."""


def run_of(launcher: Launcher, address: str, wanted: Sequence[float]) -> Run:
    """One run, whose answer is right if the page gives it."""
    found = launcher.found(address)
    if found["data"] is not None and not is_near(found["data"], wanted):
        raise RuntimeError(f"a wrong answer: {found['data'][:10]}")
    first = found["times"][0]
    spans = {
        stage: [
            (start, end) for name, start, end in found["stages"] if name in names and end <= first
        ]
        for stage, names in STAGES.items()
    }
    return Run(found["times"], spans)


def pages(folder: Path, model: Path, case: Mapping[str, Any]) -> dict[str, str]:
    """The pages of all ways to an answer, which are written."""
    ways = {"meganeura": OURS}
    if (folder / ORT).exists():
        for provider, title in (("webgpu", "WebGPU"), ("wasm", "WebAssembly")):
            ways[f"ONNX Runtime Web, {title}"] = ONNX_RUNTIME.replace("PROVIDER", provider)
    if (model / "tinygrad.js").exists():
        ways["tinygrad"] = TINYGRAD
    made = {"meganeura, a page": "page.html"} if (model / "page.html").exists() else {}
    for number, (title, script) in enumerate(ways.items()):
        text = script.replace("SHAPE", json.dumps(case["shape"]))
        text = text.replace("SIZES", json.dumps(case["sizes"]))
        text = INPUT.replace("COUNT", str(prod(case["shape"]))) + text
        made[title] = f"index{number}.html"
        page = PAGE.replace("LATER", str(LATER)).replace("SCRIPT", text)
        (model / made[title]).write_text(page)
    return made


def is_near(data: Sequence[float], wanted: Sequence[float]) -> bool:
    """True if an answer is right."""
    most = max(map(abs, wanted))
    pairs = zip(data, wanted, strict=True)
    return all(abs(one - other) <= 1e-4 * most for one, other in pairs)


def measure(launcher: Launcher, folder: Path, model: Path, runs: int) -> None:
    """Print the rows of one model, and below them the stages of each first answer."""
    case = json.loads((model / "case.json").read_text())
    shown: list[str] = []
    for title, page in pages(folder, model, case).items():
        sent: list[Path] = []
        done: list[Run] = []
        try:
            with serving(folder, sent) as address:
                for _ in range(runs):
                    sent.clear()
                    done.append(run_of(launcher, f"{address}/{model.name}/{page}", case["wanted"]))
        except RuntimeError as error:
            print(f"| {case['name']} | {title} | {error} |", flush=True)
            continue
        contents = [path.read_bytes() for path in sent]
        packed = sum(len(gzip.compress(content)) for content in contents)
        size = sum(map(len, contents))
        first = median(run.times[0] for run in done)
        each = [end - start for run in done for start, end in pairwise(run.times)]
        later = f"{median(each):.1f} ms" if each else "-"
        print(
            f"| {case['name']} | {title} | {size / 2**20:.2f} | {packed / 2**20:.2f} "
            f"| {first / 1000:.2f} s | {later} |",
            flush=True,
        )
        shown.append(f"{case['name']} | {title} | {', '.join(stages(done))}, answer {first:.0f}")
    print("stages of a first answer, in ms since navigation:", *shown, sep="\n", flush=True)


def stages(runs: Sequence[Run]) -> list[str]:
    """Returns begin and end of stages, as medians.

    Of several parts their number, and the time of each.
    """
    said: list[str] = []
    for stage in STAGES:
        parts = [run.spans[stage] for run in runs]
        if not all(parts):
            continue
        start = median(min(start for start, _ in spans) for spans in parts)
        end = median(max(end for _, end in spans) for spans in parts)
        text = f"{stage} {start:.0f}-{end:.0f}"
        if stage in ("pipelines", "modules"):
            took = sorted((end - start for start, end in parts[0]), reverse=True)
            text += f" ({len(took)}: {' '.join(f'{each:.0f}' for each in took[:8])})"
        said.append(text)
    return said


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


def generate(launcher: Launcher, folder: Path, model: Path) -> None:
    """Print how a model writes a text, whose tokens are those of the Python runtime."""
    case = json.loads((model / "case.json").read_text())
    script = GENERATION.replace("PROMPT", json.dumps(case["prompt"]))
    script = script.replace("STEPS", str(len(case["tokens"])))
    (model / "index.html").write_text(PAGE.replace("SCRIPT", script))
    with serving(folder, []) as address:
        found = launcher.found(f"{address}/generation/{model.name}/index.html")
        print(
            f"{model.name} opened after {found['opened'] / 1000:.2f} s, {found['title']}, ", end=""
        )
        print(f"{found['bytes'] / 2**20:.0f} MiB of GPU memory", flush=True)
        for done in found["rounds"]:
            same = sum(
                one == other for one, other in zip(done["tokens"], case["tokens"], strict=True)
            )
            start, first, *_, last = done["times"]
            each = (last - first) / (len(case["tokens"]) - 1)
            print(
                f"{len(case['prompt'])} tokens read and one written in {first - start:.1f} ms, "
                f"then {each:.2f} ms each, {1000 / each:.1f} a second: "
                f"{same} of {len(case['tokens'])} tokens are those of Python",
                flush=True,
            )
        with launcher.browser() as browser:
            browser.call("Page.navigate", url=f"{address}/generation/{model.name}/page.html")
            browser.until("document.body.dataset.state", launcher.patience)
            write = "[...document.querySelectorAll('button')].find(b => b.textContent === 'Write')"
            browser.evaluate(f"{write}?.click()")
            browser.until("document.querySelector('main').dataset.runs", launcher.patience)
            said = ["#problem", "#chips", "[data-role=text]", ".written + .note"]
            texts = [f"document.querySelector({json.dumps(each)})?.innerText" for each in said]
            found = [browser.evaluate(text) or "" for text in texts]
    print("its page:", " / ".join(" ".join(text.split("\n")) for text in found), flush=True)


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
    for case in sorted(folder.glob("generation/*/case.json")):
        generate(launcher, folder, case.parent)


if __name__ == "__main__":
    main()
