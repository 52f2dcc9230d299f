"""Ten shape mistakes in four tools: the tables of docs/side_by_side.md.

    python -m benchmarks.side_by_side [--python PATH]

`--python` is an interpreter (3.12 or later) that has `torch`, `jaxtyping`, `beartype`, `pyrefly`
and `pyrefly-torch-stubs`. A tool that it lacks is a dash, with its reason.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from meganeura_dsl.pipeline import check_file

HERE = Path(__file__).parent
MISTAKES = {
    "residual_odd": "Branches of a residual that agree for even sizes only",
    "keys_not_transposed": "Keys that are not transposed",
    "loss_broadcast": "A loss of [n, 1] against [n]",
    "labels_column": "Labels [n, 1] for cross entropy",
    "flatten_size": "A flattened size for one size of pictures",
    "mask_rank": "A mask [n, t] for scores [n, heads, s, t]",
    "heads": "Heads that do not divide the width",
    "positions": "A table of positions shorter than the sequence",
    "softmax_axis": "Softmax along the wrong axis",
    "heads_joined": "Heads joined in the wrong order",
}
NEEDS = {
    "torch": ("torch",),
    "jaxtyping": ("torch", "jaxtyping", "beartype"),
    "pyrefly": ("torch", "pyrefly", "shape_extensions"),
}
TITLES = {
    "torch": "PyTorch",
    "jaxtyping": "jaxtyping",
    "pyrefly": "Pyrefly",
    "meganeura": "Meganeura",
}


@dataclass(frozen=True)
class Finding:
    """When a tool finds a mistake, where, for which sizes, and the first line of its message."""

    when: str
    where: str = ""
    sizes: str = ""
    said: str = ""

    def row(self, tool: str) -> str:
        """A row of the table of a mistake."""
        said = f"`{self.said}`" if self.said else ""
        if "`" in self.said:
            said = f"`` {self.said} ``"
        cells = (TITLES[tool], self.when, self.where, self.sizes, said.replace("|", "\\|"))
        return f"| {' | '.join(cells)} |"


NEVER = Finding("never")


def ours(mistake: str) -> Finding:
    """The first report of `check` about a mistake."""
    path = HERE / mistake / "net.mgn"
    reports = check_file(str(path)).reports
    if not reports:
        return NEVER
    report = reports[0]
    assert report.label is not None
    line = path.read_text()[: report.label.span.start].count("\n") + 1
    said = f"{report.severity.value}[{report.code}]: {report.headline}"
    when = "before running" if report.severity.value == "error" else "before running, as a note"
    return Finding(when, _place(path.read_text(), line), "all", said)


def _place(text: str, line: int) -> str:
    return "at the mistake" if "# mistake" in text.splitlines()[line - 1] else f"line {line}"


def _run(tool: str, mistake: str, python: str) -> Finding:
    """The finding of a tool of Python, in a folder that is deleted afterwards."""
    text = (HERE / mistake / f"{tool}.py.txt").read_text()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(text)
        command = [python, "-B", file.name]
        if tool == "pyrefly":
            # The presence of a configuration turns on what Pyrefly leaves out without one.
            (Path(folder) / "pyrefly.toml").write_text('python-version = "3.13"\n')
            options = ("--python-interpreter-path", python, "--output-format", "full-text")
            command = [python, "-m", "pyrefly", "check", *options, file.name]
        done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=folder)
    if tool == "pyrefly":
        return _static(text, done.stdout)
    return _dynamic(text, done)


def _static(text: str, printed: str) -> Finding:
    found = re.search(r"^ *ERROR (.*)\n *--> program\.py:(\d+)", printed, re.MULTILINE)
    if found is None:
        return NEVER
    line = int(found[2])
    smoke = text[: text.index("def smoke_test")].count("\n") + 1
    sizes = "all" if line < smoke else "those of a call"
    return Finding("before running", _place(text, line), sizes, found[1])


def _dynamic(text: str, done: subprocess.CompletedProcess[str]) -> Finding:
    if done.returncode == 0:
        return NEVER
    tried = done.stdout.splitlines()
    lines = re.findall(r'program\.py", line (\d+)', done.stderr)
    said = re.findall(r"^(?:jaxtyping\.TypeCheckError|\w+Error): .*", done.stderr, re.MULTILINE)[-1]
    when = "at the call" if "TypeCheckError" in said else "when the op runs"
    passed = f"; passes at {'; '.join(tried[:-1])}" if tried[1:] else ""
    return Finding(when, _place(text, int(lines[-1])), tried[-1] + passed, said)


def missing(tool: str, python: str) -> str:
    """The packages that a tool needs and an interpreter lacks."""
    code = (
        "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"
    )
    command = [python, "-c", code, *NEEDS[tool]]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def tables(python: str) -> Iterator[str]:
    """The tables of the page: when each tool finds each mistake, and what it says."""
    lacks = {tool: missing(tool, python) for tool in NEEDS}
    found = {
        mistake: {
            tool: Finding("-", said=f"missing: {lacks[tool]}")
            if lacks[tool]
            else _run(tool, mistake, python)
            for tool in NEEDS
        }
        | {"meganeura": ours(mistake)}
        for mistake in MISTAKES
    }
    yield f"| mistake | {' | '.join(TITLES.values())} |"
    yield "|---|---|---|---|---|"
    for mistake, row in found.items():
        yield f"| {MISTAKES[mistake]} | {' | '.join(each.when for each in row.values())} |"
    for mistake, row in found.items():
        yield f"\n## {MISTAKES[mistake]}\n"
        yield f"`benchmarks/side_by_side/{mistake}`\n"
        yield "| tool | when | where | for which sizes | first line |"
        yield "|---|---|---|---|---|"
        yield from (finding.row(tool) for tool, finding in row.items())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the others")
    print("\n".join(tables(parser.parse_args().python)))


if __name__ == "__main__":
    main()
