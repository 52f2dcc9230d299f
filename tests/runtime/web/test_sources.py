"""The sources of pages: types fit, they are small, and the committed page is built of them."""

import json
from pathlib import Path

from tests.runtime.web.conftest import WEB, run_node

TYPESCRIPT = WEB / "node_modules" / "typescript" / "bin" / "tsc"


def run(*words: str | Path, where: Path = WEB) -> str:
    """What a program of Node says, which has to succeed."""
    done = run_node(*words, where=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types_fit() -> None:
    run(TYPESCRIPT, "--noEmit")


def test_the_committed_page_is_what_the_sources_give_and_small() -> None:
    sizes = json.loads(run("build.ts", "--check"))
    assert sizes["runtime"] < 40_000
    assert sizes["page"] < 80_000


def test_nothing_else_is_needed_at_run_time() -> None:
    package = json.loads((WEB / "package.json").read_text())
    assert "dependencies" not in package
    assert "http" not in (WEB / "page" / "page.html").read_text().replace("http-equiv", "")


USER = """
import { Model, Training } from "meganeura";
import type { Tensor } from "meganeura";

const model = await Model.open("model.mgb", { progress: (done, of) => console.log(done / of) });
const { output } = await model.run({ image: new Float32Array(64) });
const first: number = (output as Tensor).data[0]!;

const training = await Training.open(new Blob());
await training.run({ steps: 10, onStep: ({ step, loss }) => console.log(step, loss, first) });
const weights: Uint8Array = training.weights();
console.log(weights.length);
"""


def test_the_package_has_types_for_those_who_use_it(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "meganeura"
    run(TYPESCRIPT, "--project", "tsconfig.types.json", "--outDir", package / "dist")
    (package / "package.json").write_text((WEB / "package.json").read_text())
    (tmp_path / "user.ts").write_text(USER)
    (tmp_path / "wrong.ts").write_text(USER.replace("steps: 10", "steps: 'ten'"))
    options = ["--noEmit", "--strict", "--module", "esnext", "--moduleResolution", "bundler"]
    options += ["--target", "es2022", "--lib", "es2023,dom", "--noUncheckedIndexedAccess"]
    run(TYPESCRIPT, *options, "user.ts", where=tmp_path)
    refused = run_node(TYPESCRIPT, *options, "wrong.ts", where=tmp_path)
    assert "Type 'string' is not assignable to type 'number'" in refused.stdout
