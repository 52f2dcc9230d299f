"""A block's signature at a call: blocks fit, shapes match, `where` is proved or assumed."""

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.block_arguments import require_blocks_fit
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.input_matching import fill_inputs, match_inputs
from meganeura_dsl.elaborate.typecheck.where_clauses import assume_where, check_where
from meganeura_dsl.syntax import ast


def match_signature(inner: Frame, block: ast.Block, span: Span) -> None:
    """Match inputs and configuration that are bound with the signature, and prove `where`."""
    require_blocks_fit(inner, block)
    match_inputs(inner, block, span)
    fill_inputs(inner, block)
    check_where(inner, block, lambda: inner.caller_location(span))


def assume_signature(inner: Frame, block: ast.Block) -> None:
    """Match inputs and configuration in symbols with the signature, and assume `where`."""
    require_blocks_fit(inner, block)
    match_inputs(inner, block, block.name.span)
    fill_inputs(inner, block)
    assume_where(inner, block)
