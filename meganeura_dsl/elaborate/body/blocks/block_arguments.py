"""Blocks as values: which block a name stands for, and whether a block that is given fits.

A block that takes blocks is proved for every block of a header, its contract. A given block is
proved to fit that header when it is given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.blocks.layer_templates import is_hashable, with_types
from meganeura_dsl.elaborate.problems.layer_problems import BlockDoesNotFit
from meganeura_dsl.elaborate.problems.location import Location, counted
from meganeura_dsl.elaborate.problems.name_problems import WrongArguments, WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import example_of
from meganeura_dsl.elaborate.problems.shape_problems import (
    ArgumentMismatch,
    Example,
    RankMismatch,
    WhereUnproved,
)
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import block_behind
from meganeura_dsl.elaborate.scope.new_symbols import marked, symbols_in, with_symbols_as
from meganeura_dsl.elaborate.scope.proof import Proof, ProofPath
from meganeura_dsl.elaborate.scope.scope import MODES, ElaborationState, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.scope.weight_paths import own_paths
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition
from meganeura_dsl.elaborate.typecheck.contracts import contract_of, header_text
from meganeura_dsl.elaborate.typecheck.shape_patterns import pattern_text
from meganeura_dsl.elaborate.typecheck.stated_positions import (
    positions_in,
    symbol_of,
    with_symbols,
)
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import (
    REST_RANKS,
    Clauses,
    any_config,
    any_inputs,
    any_sizes,
    rest_axes,
    rest_names,
    split_where,
)
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.typecheck.written_types import declared_types
from meganeura_dsl.elaborate.values import BlockValue, ElabValue, Results, describe
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Flag, Proved
from meganeura_dsl.syntax import ast

_GIVEN = "given"
"""The label under which a given block is tried."""


def require_blocks_fit(inner: Frame, block: ast.Block) -> None:
    """Refuse configuration that is a block where none is taken, or one that does not fit."""
    for parameter in block.parameters:
        value = inner.names[parameter.name]
        if isinstance(value, BoundBlock) or _takes_blocks(parameter, inner):
            require_block_fits(inner, block, parameter, value)


def _takes_blocks(parameter: ast.Parameter, inner: Frame) -> bool:
    if isinstance(parameter.kind, ast.BlockKind):
        return True
    match parameter.default:
        case ast.Name(text=text) if text not in inner.names:
            return isinstance(inner.evaluate(parameter.default), BoundBlock)
        case _:
            return False


def require_block_fits(
    inner: Frame, block: ast.Block, parameter: ast.Parameter, value: ElabValue
) -> None:
    """Refuse a value that cannot be given for a parameter of a block."""
    contract = contract_of(parameter, inner)
    location = _location_of(inner, value, block)
    if contract is None:
        cure = f"write `{parameter.name}: block` where `{block.name.text}` is declared"
        wanted = f"a number, a size or a condition as `{parameter.name}`"
        raise ProblemError(WrongKind(location, wanted, describe(value), cure))
    if not isinstance(value, BoundBlock):
        wanted = f"a block as `{parameter.name}`"
        raise ProblemError(WrongKind(location, wanted, describe(value)))
    stated = with_types(contract) if isinstance(contract, BoundBlock) else None
    key = (with_types(value), stated, parameter)
    if is_hashable(key) and key in inner.state.memo.fitting_blocks:
        return
    own = _owned(value)
    if own and any(call.label is None for call, _ in _uses(block, parameter)):
        listed = ", ".join(own)
        reason = f"owns weights ({listed}), and is applied without a label"
        header = "a block without weights"
        if isinstance(contract, BoundBlock):
            header = _stated(contract, parameter)
        name, text = parameter.name, f"apply it with a label in `{block.name.text}`"
        cure = None if inner.module.is_library else Help(text, f"|> {name}: {name}")
        raise ProblemError(
            BlockDoesNotFit(
                location, value.name, name, reason, Location(parameter.span), header, cure=cure
            )
        )
    if isinstance(contract, BoundBlock):
        _Fit(inner, block, parameter, contract, value).require()
    if is_hashable(key):
        inner.state.memo.fitting_blocks.add(key)


def _location_of(inner: Frame, value: ElabValue, block: ast.Block) -> Location:
    span = value.span if isinstance(value, BlockValue) else None
    if span is not None:
        return Location(span)
    parent = inner if inner.parent is None else inner.parent
    return parent.location(inner.call_span or block.name.span)


def _owned(value: BoundBlock) -> tuple[str, ...]:
    """The paths of weights that need a label where the block is applied."""
    declaration = value.declaration
    if value.path is not None or value.is_contract or isinstance(declaration, ast.Model):
        return ()
    return own_paths(value.module, declaration)


def _uses(block: ast.Block, parameter: ast.Parameter) -> Iterator[tuple[ast.Call, bool]]:
    """The calls of a block parameter in the body of its block, and which are behind a pipe."""
    nodes = [node for statement in block.body for node in walk(statement)]
    piped = {id(node.layer) for node in nodes if isinstance(node, ast.Pipe)}
    for node in nodes:
        if isinstance(node, ast.Call) and node.callee == parameter.name:
            yield node, id(node) in piped


def _apart(header: ast.Block, values: tuple[BoundBlock, ...]) -> dict[str, str]:
    """A name for each symbol in the configuration of blocks, none of which a header has itself."""
    nodes = (node for item in header.inputs for node in walk(item))
    own = {node.text for node in nodes if isinstance(node, ast.Name)}
    own |= {each.name for each in header.parameters} | {*MODES}
    own |= {symbol_of(header, name) for name in positions_in(header)}
    for name, rank in product(rest_names(header), REST_RANKS):
        own |= symbols_in(rest_axes(header, name, rank))
    used = frozenset[str]().union(*map(symbols_in, values))
    names: dict[str, str] = {}
    for name in sorted(used):
        taken = own.union(used - {name}, names.values())
        names[name] = marked(name, taken)
    return names


def _renamed(value: BoundBlock, names: Mapping[str, str]) -> BoundBlock:
    config = tuple((name, with_symbols_as(each, names)) for name, each in value.config)
    return replace(value, config=config)


class _Fit:
    """The proof that a block can stand for every use of a parameter."""

    def __init__(
        self,
        inner: Frame,
        block: ast.Block,
        parameter: ast.Parameter,
        contract: BoundBlock,
        value: BoundBlock,
    ) -> None:
        assert isinstance(contract.declaration, ast.Block)
        self.inner = inner
        self.block = block
        self.parameter = parameter
        self.header = contract.declaration
        names = _apart(self.header, (contract, value))
        self.least = {new: inner.facts.least.get(name, 1) for name, new in names.items()}
        """The lower bounds of what the configuration that both were given speaks of."""
        self.contract = _renamed(contract, names)
        self.value = _renamed(value, names)
        self.location = _location_of(inner, value, block)

    def require(self) -> None:
        """Raise `ProblemError` unless the block fits, for all sizes and configurations."""
        if self.value.path is not None:
            raise self._refused("has the sizes of its weights, and a header is for all sizes")
        is_header = self.value.declaration == self.header
        if is_header and with_types(self.value)[1] == with_types(self.contract)[1]:
            return
        names = rest_names(self.header)
        for ranks in product(REST_RANKS, repeat=len(names)):
            for use in self._forms():
                path = ProofPath()
                while True:
                    try:
                        self._prove(dict(zip(names, ranks, strict=True)), use, path)
                    except UndecidableError as error:
                        raise self._refused(error.reason) from error
                    if not path.advance():
                        break

    def _forms(self) -> set[tuple[int, tuple[str, ...]]]:
        """Returns the forms in which the body applies it: arguments by position, and by name."""
        tensors = {item.name for item in self.header.inputs}
        forms: set[tuple[int, tuple[str, ...]]] = set()
        for call, piped in _uses(self.block, self.parameter):
            named = [each.name for each in call.arguments if each.name is not None]
            due = len(tensors) - len(tensors.intersection(named))
            positional = len(call.arguments) - len(named) + len(call.inputs) + piped - due
            forms.add((max(positional, 0), tuple(each for each in named if each not in MODES)))
        required = [each for each in self._left() if each.default is None]
        return forms or {(len(required), ())}

    def _left(self) -> list[ast.Parameter]:
        """The configuration of the contract that is not given yet."""
        fixed = dict(self.contract.config)
        return [each for each in self.header.parameters if each.name not in fixed]

    def _prove(
        self, ranks: dict[str, int], use: tuple[int, tuple[str, ...]], path: ProofPath
    ) -> None:
        try:
            self._try(ranks, use, path, modular=True)
        except NeedsInliningError:
            self._try(ranks, use, path, modular=False)

    def _try(
        self,
        ranks: dict[str, int],
        use: tuple[int, tuple[str, ...]],
        path: ProofPath,
        *,
        modular: bool,
    ) -> None:
        count, named = use
        by_position = [each.name for each in self._left()][:count]
        around = self.inner.state.proof
        proof = Proof[Frame](around.flags_if_proved if modular and around is not None else None)
        build = Builder(Facts(recorder=self.inner.facts.recorder))
        state = ElaborationState(
            self.inner.state.elaborator, build, Context(Flag("training")), proof=proof
        )
        for name, least in self.least.items():
            state.build.facts = state.build.facts.with_lower_bound(name, least)
        path.begin()
        frame = Frame(
            state, self.contract.module, self.block.name.text, {},
            declaration=replace(self.header), choices=path,
        )  # fmt: skip  # a copy: a block fits its own header, and does not apply itself
        self._bind(frame, {*by_position, *named})
        for name, rank in ranks.items():
            frame.names[name] = rest_axes(self.header, name, rank)
        solved = any_sizes(self.header.inputs, frame)
        early, late = split_where(self.header, of_positions=False)
        self._assume(early, frame)
        any_inputs(self.header.inputs, solved, frame)
        self._assume(late, frame)
        tensors = (frame.names[item.name] for item in self.header.inputs if item.name not in named)
        arguments = Arguments(
            (*tensors, *(frame.names[name] for name in by_position)),
            {name: frame.names[name] for name in named},
        )
        results = self._results(frame, arguments)
        if state.values.unconstrained_indices:
            raise self._refused("needs whole numbers of which the header states nothing")
        declared = declared_types(frame, self.header, frame.names, results)
        assert declared is not None
        if len(declared) != len(results):
            raise self._refused(f"gives {counted(len(results), 'result')}, not {len(declared)}")
        for wanted, value in zip(declared, results, strict=True):
            self._compare(frame, wanted, value.type)
        block = block_behind(self.value.module, self.value.declaration)
        names = () if block is None else block.result_names
        if self.header.result_names not in ((), names):
            due = ", ".join(self.header.result_names)
            raise self._refused(f"names its results {', '.join(names) or 'not at all'}, not {due}")

    def _assume(self, clauses: Clauses, frame: Frame) -> None:
        stated = with_symbols(frame, self.header)
        for clause in clauses:
            condition = clause_condition(clause, stated, self.header)
            frame.build.facts = frame.facts.assume(condition)

    def _bind(self, frame: Frame, given: set[str]) -> None:
        """Any configuration for what is given, and defaults for what is not."""
        fixed = dict(self.contract.config)
        for each in self.header.parameters:
            if each.name in fixed:
                frame.names[each.name] = fixed[each.name]
            elif each.name in given or each.default is None:
                frame.names[each.name] = any_config(each, frame)
            else:
                frame.names[each.name] = frame.evaluate(each.default)

    def _results(self, frame: Frame, arguments: Arguments) -> Results:
        span = self.location.span
        label = ast.Path(span, (_GIVEN,))
        call = ast.Call(span, label, self.value.name, span, (), ())
        try:
            return frame.state.elaborator.apply_block(call, self.value, arguments, frame)
        except ProblemError as error:
            problem = error.problem
            is_of_inputs = isinstance(problem, ArgumentMismatch | RankMismatch)
            if is_of_inputs and problem.location.span == span and not problem.location.inside:
                raise self._refused(self._inputs_differ(), _example(problem)) from error
            report = problem.report()
            form = report.help if isinstance(problem, WrongArguments) else None
            cure = Help(form.text, form.code) if form else None
            raise self._refused(report.headline, _example(problem), cure) from error

    def _inputs_differ(self) -> str:
        taken = _inputs(self.value.declaration) or "other tensors"
        return f"takes {taken}, and is given {_inputs(self.header)}"

    def _compare(self, frame: Frame, wanted: TensorType, found: TensorType) -> None:
        """Refuse a result of another type than the header says."""
        reason = f"gives {found}, and {wanted} is due"
        if wanted.dtype is not found.dtype or wanted.rank != found.rank:
            raise self._refused(reason)
        for left, right in zip(wanted.shape, found.shape, strict=True):
            verdict = equal(frame, left, right)
            if not isinstance(verdict, Proved):
                shapes = [("gives", found.shape), ("due", wanted.shape)]
                raise self._refused(reason, example_of(verdict, shapes))

    def _refused(
        self, reason: str, example: Example | None = None, cure: Help | None = None
    ) -> ProblemError:
        return ProblemError(
            BlockDoesNotFit(
                self.location,
                self.value.name,
                self.parameter.name,
                reason,
                Location(self.parameter.span),
                _stated(self.contract, self.parameter),
                example,
                cure,
            )
        )


def _inputs(declaration: ast.Block | ast.Model) -> str:
    """The shapes a block takes, as they are written."""
    if isinstance(declaration, ast.Model):
        return ""
    return ", ".join(
        f"{each.type.dtype or ''}{pattern_text(each.type.shape)}" for each in declaration.inputs
    )


def _stated(contract: BoundBlock, parameter: ast.Parameter) -> str:
    """Returns the meaning of a default as a header; empty if the parameter states the header."""
    return "" if isinstance(parameter.kind, ast.BlockKind) else header_text(contract)


def _example(problem: object) -> Example | None:
    return problem.example if isinstance(problem, ArgumentMismatch | WhereUnproved) else None
