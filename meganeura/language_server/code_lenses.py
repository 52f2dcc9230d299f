"""Code lenses: a line above each block, model, training and expectation."""

from lsprotocol.types import CodeLens, Command

from meganeura.language_server.analysis import Analysis, path_of
from meganeura.language_server.proofs import errors_in, proof_status
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast

COMMAND = "meganeura.run"
"""The command of a lens: its arguments are those of `meganeura`."""


def code_lenses(analysis: Analysis) -> list[CodeLens]:
    """Returns verdicts, numbers of weights, and the commands that run each declaration."""
    return [
        CodeLens(analysis.range(_first(each)), lens)
        for each in analysis.declarations
        if (lens := _lens(analysis, each)) is not None
    ]


def _first(node: ast.Declaration) -> Span:
    return Span(node.span.source, node.span.start, node.span.start)


def _lens(analysis: Analysis, node: ast.Declaration) -> Command | None:
    file = str(path_of(analysis.uri))
    match node:
        case ast.Block() | ast.Optimizer():
            said = proof_status(analysis, analysis.module, node)
            return Command(said, COMMAND, arguments=["check", file]) if said else None
        case ast.Model():
            said = proof_status(analysis, analysis.module, node)
            arguments = ["shapes", f"{file}:{node.name.text}"]
            return Command(said, COMMAND, arguments=arguments) if said else None
        case ast.Train():
            errors = errors_in(analysis, node)
            said = f"{errors} error{'' if errors == 1 else 's'}" if errors else "train"
            return Command(said, COMMAND, arguments=["train", f"{file}:{node.name.text}"])
        case ast.ExpectHas() | ast.ExpectHolds() | ast.ExpectMaps():
            said = "does not hold" if errors_in(analysis, node) else "holds"
            return Command(said, COMMAND, arguments=["check", file])
        case _:
            return None
