"""Neural networks whose shapes are proved, from Python: load a program, run its models, train it.

    import meganeura

    program = meganeura.load("digits_cnn")
    run = program.train(device="cpu", settings={"epochs": 3})
    network = program.model(weights=run.weights)
    logits = network.run(image=images)["output"]

Importing this package loads neither NumPy nor a GPU library; each call loads what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meganeura_dsl import __version__

if TYPE_CHECKING:
    from meganeura.program import Program
    from meganeura_dsl.pipeline import CheckResult

__all__ = ["__version__", "check", "load"]


def load(target: str) -> Program:
    """A program: a path such as `net.mgn`, or the name of a standard model such as `resnet18`.

    All of it is proved, as `check` does; what was proved before is not proved again. Raises
    `ProblemError` or `ProblemsError`, whose text says what is wrong and where.
    """
    from meganeura.program import Program

    return Program.load(target)


def check(target: str) -> CheckResult:
    """Prove everything a program declares; `.fine` says whether it holds, `.reports` what does not.

    Raises `meganeura_dsl.diagnostics.problem.ProblemError` if the program cannot be read.
    """
    from meganeura_dsl import pipeline

    return pipeline.check_file(target)
