"""The walk: which function evaluates each form of expression, and which runs each statement.

One walk serves two ends. With concrete configuration it builds the graph of a model; with symbolic
configuration it proves a block for all sizes at once, following each path through its choices.
"""

from collections.abc import Callable, Mapping

from meganeura_dsl.elaborate.body.calls import evaluate_call, evaluate_pipe
from meganeura_dsl.elaborate.body.expressions.arithmetic import evaluate_binary, evaluate_unary
from meganeura_dsl.elaborate.body.expressions.choices import evaluate_conditional
from meganeura_dsl.elaborate.body.expressions.lists import evaluate_list
from meganeura_dsl.elaborate.body.expressions.names import (
    evaluate_attribute,
    evaluate_literal,
    evaluate_name,
    evaluate_spliced,
)
from meganeura_dsl.elaborate.body.expressions.subscripts import evaluate_subscript
from meganeura_dsl.elaborate.body.layers.declarations import declare_layer
from meganeura_dsl.elaborate.body.layers.layer_application import apply_block
from meganeura_dsl.elaborate.body.statements.bindings import run_bind, run_part
from meganeura_dsl.elaborate.body.statements.for_loops import run_for
from meganeura_dsl.elaborate.body.statements.if_else import run_if
from meganeura_dsl.elaborate.body.statements.parameters import declare_parameter, set_update
from meganeura_dsl.elaborate.body.statements.recovery import run_recovered
from meganeura_dsl.elaborate.body.statements.returns import refuse_train_statement, run_return
from meganeura_dsl.elaborate.body.statements.scans import run_scan
from meganeura_dsl.elaborate.scope.scope import Elaborator, Frame
from meganeura_dsl.elaborate.values import ElabValue, Results
from meganeura_dsl.syntax import ast

EXPRESSIONS: Mapping[type[ast.Node], Callable[..., ElabValue]] = {
    ast.Name: evaluate_name,
    ast.Integer: evaluate_literal,
    ast.Real: evaluate_literal,
    ast.Text: evaluate_literal,
    ast.Boolean: evaluate_literal,
    ast.Binary: evaluate_binary,
    ast.Unary: evaluate_unary,
    ast.Conditional: evaluate_conditional,
    ast.Call: evaluate_call,
    ast.Pipe: evaluate_pipe,
    ast.ListOf: evaluate_list,
    ast.Subscript: evaluate_subscript,
    ast.Attribute: evaluate_attribute,
    ast.Spliced: evaluate_spliced,
}
"""The function that evaluates each form of expression; a table is faster than a chain of tests."""


def run_statement(
    statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
) -> Results | None:
    """Run a statement before others; the results of a `return`, or None if there was none."""
    match statement:
        case ast.Bind():
            run_bind(statement, frame)
        case ast.Part():
            run_part(statement, frame)
        case ast.Return():
            return run_return(statement, frame)
        case ast.If():
            return run_if(statement, frame, rest)
        case ast.For():
            return run_for(statement, frame)
        case ast.Repeat() | ast.Minimize() | ast.Project() | ast.Metric() | ast.Show() | ast.Run():
            raise refuse_train_statement(statement, frame)
        case ast.Scan():
            run_scan(statement, frame)
        case ast.Declare():
            declare_parameter(statement, frame)
        case ast.Layer():
            declare_layer(statement, frame)
        case ast.Update():
            set_update(statement, frame)
    return None


ELABORATOR = Elaborator(EXPRESSIONS, run_statement, run_recovered, apply_block)
"""Elaborates blocks and models; `train` blocks and settings have other elaborators."""
