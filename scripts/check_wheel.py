"""Builds the wheel, unpacks it far from this checkout, and uses what it carries."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--quiet")
WHERE = """
import meganeura_dsl, meganeura_runtime
print(meganeura_dsl.__file__, meganeura_runtime.__file__, sep="\\n")
"""
PAGES = ("dims", "syntax", "functions", "layers", "programs", "settings", "grammar")
"""Pages of the language: some that are written, and all that are made from the code."""
GUIDES = ("training", "inference", "coming_from_pytorch", "models", "glossary")
"""Some of the guides."""


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Returns the standard output of a command, run in `folder`; fails as it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def main() -> None:
    """Build, install, import both packages, and check a standard model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run((*PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT), folder)
        (wheel,) = folder.glob("meganeura-*.whl")
        site = folder / "site"
        run((*PIP, "install", "--no-deps", "--target", site, wheel), folder)

        # The unpacked wheel stands before the editable install on the search path.
        found = run((sys.executable, "-c", WHERE), folder, PYTHONPATH=str(site))
        strays = [line for line in found.splitlines() if not Path(line).is_relative_to(site)]
        if strays:
            sys.exit(f"{wheel.name} does not carry: {', '.join(strays)}")
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
        meganeura = site / "bin" / "meganeura"
        print(run((meganeura, "check", "digits_cnn"), folder, PYTHONPATH=str(site)), end="")
        pages = {
            word: run((meganeura, "docs", word), folder, PYTHONPATH=str(site))
            for word in (*PAGES, *GUIDES, "E0301")
        }
        for word, text in pages.items():
            if not text.startswith("# "):
                sys.exit(f"{wheel.name} has no page `{word}`")
        source = run((meganeura, "docs", "gpt2"), folder, PYTHONPATH=str(site))
        if not source.startswith(f"`{site}") or "block Gpt2(" not in source:
            sys.exit(f"{wheel.name} does not show the source of gpt2")
        run((meganeura, "docs"), folder, PYTHONPATH=str(site))
        if run((meganeura, "explain", "E0301"), folder, PYTHONPATH=str(site)) != pages["E0301"]:
            sys.exit(f"{wheel.name} explains E0301 otherwise than its page")
        certify = (meganeura, "explain-opt", "digits_mlp", "--certificate", "run.json")
        run(certify, folder, PYTHONPATH=str(site))
        verify = (site / "bin" / "meganeura-verify", "run.json")
        print(run(verify, folder, PYTHONPATH=str(site)), end="")
        page = folder / "page.html"
        build = (meganeura, "build", "digits_mlp", "--mode", "train", "-o", page)
        print(run(build, folder, PYTHONPATH=str(site)), end="")
        print(f"docs: {len(pages)} pages looked at, and the source of a model")


if __name__ == "__main__":
    main()
