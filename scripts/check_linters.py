"""Plants one violation of each rule in a copy of the tree and demands that its linter object.

A linter that is misconfigured passes everything; this is how that is noticed.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sysconfig.get_path("scripts"))
COPIED = ("pyproject.toml", "meganeura", "meganeura_dsl", "runtime")

RUFF = ("ruff", "check", "--no-cache", "--output-format=concise")
IMPORTS = ("lint-imports", "--no-cache")


@dataclass(frozen=True)
class Plant:
    """A violation: the file it stands in, who must find it, and what must be said."""

    rule: str
    path: str
    text: str
    linter: tuple[str, ...]
    objection: str


PLANTS = (
    Plant(
        "an op may not know a kernel",
        "meganeura_dsl/ir/ops/planted.py",
        "import meganeura_runtime.backends.webgpu.codegen\n",
        IMPORTS,
        "meganeura_dsl.ir.ops.planted -> meganeura_runtime.backends.webgpu.codegen",
    ),
    Plant(
        "a phase may not know a later one",
        "meganeura_dsl/ir/planted.py",
        "import meganeura_dsl.ir.ops\n",
        IMPORTS,
        "meganeura_dsl.ir.planted",
    ),
    Plant(
        "only the device may import wgpu",
        "meganeura_dsl/ir/planted.py",
        "import wgpu\n",
        IMPORTS,
        "meganeura_dsl.ir.planted -> wgpu",
    ),
    Plant(
        "only the compiler of the grammar and the parser may import lark",
        "meganeura_dsl/ir/planted.py",
        "import lark\n",
        IMPORTS,
        "meganeura_dsl.ir.planted -> lark",
    ),
    Plant(
        "only the registry may know a backend",
        "meganeura/planted.py",
        "import meganeura_runtime.backends.webgpu.plan\n",
        IMPORTS,
        "meganeura.planted -> meganeura_runtime.backends.webgpu.plan",
    ),
    Plant(
        "every module has its layer",
        "meganeura_dsl/planted.py",
        "",
        IMPORTS,
        "not listed as layers: - meganeura_dsl.planted",
    ),
    Plant(
        "types agree",
        "meganeura_dsl/planted.py",
        'SIZE: int = "large"\n',
        ("pyright",),
        "reportAssignmentType",
    ),
    Plant(
        "no comment silences a type error",
        "runtime/meganeura_runtime/planted.py",
        'SIZE: int = "large"  # type: ignore\n',
        ("pyright",),
        "reportAssignmentType",
    ),
    Plant(
        "nothing is untyped",
        "runtime/meganeura_runtime/planted.py",
        "def double(size):\n    return size + size\n",
        ("pyright",),
        "reportMissingParameterType",
    ),
    Plant(
        "nothing is imported in vain",
        "meganeura_dsl/planted.py",
        '"""Planted."""\n\nimport math\n',
        RUFF,
        "F401",
    ),
    Plant(
        "a line has at most 100 columns",
        "meganeura_dsl/planted.py",
        f'"""Planted."""\n\nTEXT = "{"x" * 92}"\n',
        RUFF,
        "E501",
    ),
    Plant(
        "a function fits a screen",
        "meganeura_dsl/planted.py",
        '"""Planted."""\n\n\ndef long() -> None:\n    """Go on."""\n' + "    print()\n" * 41,
        RUFF,
        "PLR0915",
    ),
    Plant(
        "the formatter decides the layout",
        "meganeura_dsl/planted.py",
        "SIZES = [ 1,2 ]\n",
        ("ruff", "format", "--no-cache", "--check"),
        "planted.py",
    ),
)


def objects(plant: Plant, tree: Path) -> bool:
    """True if the linter fails on `plant`, standing in `tree`, and for the reason expected."""
    program, *arguments = plant.linter
    whole_tree = plant.linter == IMPORTS
    file = tree / plant.path
    file.write_text(plant.text)
    # The copy stands before the installed package on the search path.
    search_path = os.pathsep.join((str(tree), str(tree / "runtime")))
    done = subprocess.run(
        [PROGRAMS / program, *arguments, *(() if whole_tree else (plant.path,))],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": search_path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    file.unlink()
    return done.returncode == 1 and plant.objection in " ".join(done.stdout.split())


def main() -> int:
    """Try every plant; 1 if any went unnoticed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tree / name)
            else:
                shutil.copy(ROOT / name, tree / name)
        for plant in PLANTS:
            noticed = objects(plant, tree)
            unnoticed += not noticed
            print(f"{'caught' if noticed else 'NOT CAUGHT'}: {plant.rule} ({plant.linter[0]})")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
