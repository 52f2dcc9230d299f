"""The frame of an application inside of another."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import RecursiveBlock
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.limits.language_limits import APPLICATION, DEEPEST
from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.syntax import ast


def child_frame(
    frame: Frame,
    module: LinkedModule,
    declaration: ast.Def | ast.Block | ast.Model,
    span: Span,
    path: str,
) -> Frame:
    """The frame of an application inside of another.

    What its signature chooses is chosen on the path through the block that applies it.
    """
    spend(APPLICATION)
    depth, around = 0, frame
    while around is not None:
        depth += 1
        if around.declaration is declaration or depth >= DEEPEST:
            names = [each.name for each in (frame, *frame.enclosing())][:depth]
            chain = (*reversed(names), declaration.name.text)
            raise ProblemError(RecursiveBlock(frame.location(span), chain))
        around = around.parent
    frame.state.body.applied.enter(declaration, depth)
    return Frame(
        frame.state, module, declaration.name.text, {}, path,
        parent=frame, call_span=span, declaration=declaration, choices=frame.choices,
    )  # fmt: skip
