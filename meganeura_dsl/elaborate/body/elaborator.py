"""From syntax to graph: layers are applied, statements run, and every shape is proved on the way.

One walk serves two ends. With concrete configuration it builds the graph of a model; with symbolic
configuration it proves a block for all sizes at once, following each path through its choices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from meganeura_dsl.diagnostics.other_names import Answer, other_names
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.assume_signature import may_assume_signature
from meganeura_dsl.elaborate.body.layer_summaries import apply_summary
from meganeura_dsl.elaborate.body.layer_templates import apply_template, is_hashable
from meganeura_dsl.elaborate.body.layers import Layers
from meganeura_dsl.elaborate.body.modes import TRAINING, in_mode, mode_below, split_mode
from meganeura_dsl.elaborate.body.statements import Results
from meganeura_dsl.elaborate.builtins.builtin_call import Builtin, BuiltinCall
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.builtins.initial_values import take_initials
from meganeura_dsl.elaborate.problems.layer_problems import AlwaysTraining
from meganeura_dsl.elaborate.problems.location import counted
from meganeura_dsl.elaborate.problems.name_problems import (
    MissingLabel,
    NoResult,
    RecursiveBlock,
    UnknownName,
    UnknownParameter,
    UnreadName,
    WrongKind,
)
from meganeura_dsl.elaborate.problems.origin_cures import result_cure
from meganeura_dsl.elaborate.problems.proof_failures import example_of, require_countable
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByRound
from meganeura_dsl.elaborate.problems.shape_problems import ResultMismatch
from meganeura_dsl.elaborate.scope.body import DECLARATIONS
from meganeura_dsl.elaborate.scope.linker import (
    LinkedModule,
    configuration,
    nearest,
)
from meganeura_dsl.elaborate.scope.own_paths import (
    own_parameters,
    own_paths,
    sure_paths,
    with_texts,
)
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError, is_plain
from meganeura_dsl.elaborate.scope.scope import (
    BoundBlock,
    Frame,
    NeedsInliningError,
    ProofPath,
    UndecidableError,
)
from meganeura_dsl.elaborate.typecheck.library_numbers import require_whole_numbers
from meganeura_dsl.elaborate.typecheck.outside_proofs import is_of_numbers, outside_proof
from meganeura_dsl.elaborate.typecheck.signatures import (
    Arguments,
    assume_where,
    bind_config,
    bind_inputs,
    caller_location,
    check_where,
    declared_types,
    fill_inputs,
    match_inputs,
    require_once,
)
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import equal
from meganeura_dsl.elaborate.values import (
    Evaluated,
    Pattern,
    Tensor,
    describe,
    is_tensor,
)
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.limits.language_limits import APPLICATION, DEEPEST
from meganeura_dsl.limits.work_budget import spend
from meganeura_dsl.symbolic.assumptions import Proved, Unknown, Unproved, Verdict, show_condition
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast


def _characters(declaration: ast.Node | None) -> range:
    """Where the text of a declaration stands in its file."""
    return range(0) if declaration is None else range(declaration.span.start, declaration.span.end)


@dataclass(frozen=True)
class Application:
    """A block about to be run: where it is declared, what it was given, where its weights live."""

    module: LinkedModule
    block: ast.Block
    arguments: Arguments
    path: str
    span: Span
    may_own: bool = True
    """Whether weights declared in the block itself have a name: it was labelled, or is a model."""
    mode: Mapping[str, Evaluated] = field(default_factory=dict[str, Evaluated])
    """The mode that a model was declared with."""


class Elaborator(Layers):
    """Applies layers, functions and blocks."""

    # --- calls -----------------------------------------------------------------------------------

    def apply(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Evaluated:
        """A builtin, a def, a block, a model or a labelled layer in scope, applied."""
        arguments = self.arguments(call, piped, frame)
        known = self.in_scope(call, frame)
        if known is not None:
            return self.apply_value(call, known, arguments, piped, frame)
        found = frame.module.find(call.callee)
        if found is None:
            builtin = BUILTINS.get(call.callee)
            if builtin is None:
                raise self.unknown(call, frame)
            return self._apply_builtin(call, builtin, arguments, frame)
        module, declaration = found
        match declaration:
            case ast.Def():
                return self._apply_def(call, module, declaration, arguments, frame)
            case ast.Block() | ast.Model():
                if module.is_library and isinstance(declaration, ast.Block):
                    require_whole_numbers(call, declaration, arguments, frame)
                value = BoundBlock(declaration, module=module)
                return self.apply_value(call, value, arguments, piped, frame)

    def arguments(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Arguments:
        """What a call is given, evaluated."""
        positional: list[Evaluated] = [] if piped is None else [piped]
        named: dict[str, Evaluated] = {}
        for argument in call.arguments:
            value = (
                Pattern(argument.value)
                if isinstance(argument.value, ast.Rearrangement)
                else self.evaluate(argument.value, frame)
            )
            if argument.name is None:
                positional.append(value)
            elif argument.name == TRAINING and _is_true(argument.value):
                raise ProblemError(AlwaysTraining(frame.location(argument.span)))
            else:
                named[argument.name] = value
        for argument in call.inputs:
            assert not isinstance(argument.value, ast.Rearrangement)
            if argument.name is None:
                positional.append(self.tensor(argument.value, frame))
            else:
                named[argument.name] = self.evaluate(argument.value, frame)
        return Arguments(tuple(positional), named)

    def layer_words(self, name: str, frame: Frame) -> str | None:
        """A description of the layer or function of a name for messages; None if there is none."""
        found = frame.module.find(name)
        match found[1] if found is not None else None:
            case ast.Block():
                return f"the block `{name}`"
            case ast.Model():
                return f"the model `{name}`"
            case ast.Def():
                return f"the function `{name}`"
            case None if name in frame.layers:
                return f"the layer `{name}`"
            case None:
                return f"the function `{name}`" if name in BUILTINS else None

    def unknown(self, call: ast.Call, frame: Frame) -> ProblemError:
        """The error that nothing has the name of a call."""
        known = [*frame.layers, *frame.module.names(), *BUILTINS]
        location = frame.location(call.callee_span)
        value = frame.names.get(call.callee)
        if value is not None:
            cure = f"a parameter that takes a block says so: `{call.callee}: block`"
            return ProblemError(WrongKind(location, "a layer or a function", describe(value), cure))
        kind = UnreadName if call.callee in frame.module.unread else UnknownName
        name = call.callee.rpartition(".")[2]
        foreign = other_names().get(name)
        if foreign is None and name != call.callee and name in known:
            foreign = Answer(f"its name is enough: `{name}`", ())
        close = tuple(
            name
            for name in nearest(call.callee, known)
            if call.callee_span.start not in _characters(frame.module.own.get(name))
        )
        return ProblemError(kind(location, call.callee, "layer or function", close, foreign))

    def is_known(self, name: str, frame: Frame) -> bool:
        """Whether anything has a name."""
        is_named = name in frame.names or name in frame.layers or name in BUILTINS
        return is_named or frame.module.find(name) is not None

    def check_alone(
        self, call: ast.Call, frame: Frame, *, is_piped: bool, is_reached: bool
    ) -> None:
        """Raise what is wrong with a call whatever it is applied to.

        Unless it is surely reached, that is its name alone.
        """
        recovery = frame.state.recovery
        assert recovery is not None
        if call.path is not None or call.callee in recovery.unknown:
            return
        if call.callee in frame.names or call.callee in frame.layers:
            return
        found = frame.module.find(call.callee)
        if found is None and call.callee not in BUILTINS:
            raise self.unknown(call, frame)
        if not is_reached:
            return
        block = found[1] if found is not None and isinstance(found[1], ast.Block) else None
        path = "" if call.label is None else self.path_text(call.label, frame)
        if found is not None and block is not None:
            self._claim_alone(call, found[0], block, path, frame)
        plain = [each for each in call.arguments if not isinstance(each.value, ast.Rearrangement)]
        is_open = any(recovery.speaks(each) or not is_plain(each) for each in plain)
        given = None if is_open else self.arguments(replace(call, inputs=()), None, frame)
        if found is None or block is None or given is None or call.inputs or not is_piped:
            return
        inner = self.child(frame, found[0], block, call.span, frame.join(path))
        count = frame.build.count
        stand_ins = tuple(
            frame.build.add(Input(f"#{count}.{each.name}", DType.F32, ()))
            for each in block.inputs
            if each.default is None
        )
        config = replace(given, positional=(*stand_ins, *given.positional))
        left = bind_inputs(inner, block, config, call.span)
        left = take_initials(inner, block, left, call.span)
        bind_config(inner, block.name.text, block.parameters, left, call.span, self.evaluate)

    def _claim_alone(
        self, call: ast.Call, module: LinkedModule, block: ast.Block, path: str, frame: Frame
    ) -> None:
        """Reserve the paths of a layer that is not applied; refuse one without a label."""
        location = frame.location(call.span)
        owned = own_parameters(module, block) if call.label is None else ()
        if owned:
            raise ProblemError(MissingLabel(location, block.name.text, owned))
        for name in sure_paths(module, block) if path else ():
            frame.state.claim(f"{path}.{name}", location, path)

    def _apply_builtin(
        self, call: ast.Call, builtin: Builtin, arguments: Arguments, frame: Frame
    ) -> Evaluated:
        built = BuiltinCall(
            frame, call.span, call.callee, builtin.signature,
            arguments.positional, arguments.named, self.evaluate,
        )  # fmt: skip
        return builtin.called(built)

    def _apply_def(
        self,
        call: ast.Call,
        module: LinkedModule,
        declaration: ast.Def,
        arguments: Arguments,
        frame: Frame,
    ) -> Evaluated:
        known = frame.state.memo.def_results
        given = (*arguments.positional, *arguments.named.values())
        kinds = tuple(map(type, given))  # 1 is true and 1.0 to a dict, and no other number is
        key = (
            declaration,
            frame.facts,
            frame.state.context.training,
            frame.state.rounds_open,
            kinds,
            arguments.positional,
            tuple(arguments.named.items()),
        )
        if is_hashable(key) and key in known:
            return known[key]
        inner = self.child(frame, module, declaration, call.span, frame.path)
        streams = dict(frame.state.body.streams)
        name, parameters = declaration.name.text, declaration.parameters
        bind_config(inner, name, parameters, arguments, call.span, self.evaluate)
        result = self.evaluate(declaration.body, inner)
        made_no_choice, drew_nothing = frame.facts is key[1], frame.state.body.streams == streams
        if made_no_choice and drew_nothing and is_hashable(key):
            known[key] = result
        return result

    def instantiate(
        self,
        module: LinkedModule,
        declaration: ast.Block | ast.Model,
        arguments: Arguments,
        path: str,
        span: Span,
        frame: Frame,
        *,
        may_own: bool = True,
    ) -> Results:
        """The results of a block or a model with its weights at a path."""
        if isinstance(declaration, ast.Block):
            return self.run_block(
                Application(module, declaration, arguments, path, span, may_own), frame
            )
        application = self.model_application(module, declaration, arguments, path, span, frame)
        before = len(frame.state.body.parameters)
        try:
            with frame.state.within(open_models=frame.state.context.open_models + 1):
                return self.run_block(application, frame)
        finally:
            names = list(frame.state.body.parameters)[before:]
            frame.state.body.weights.setdefault(declaration, []).extend(names)

    def model_application(
        self,
        module: LinkedModule,
        model: ast.Model,
        overrides: Arguments,
        path: str,
        span: Span,
        frame: Frame | None,
    ) -> Application:
        """The block of a model, configured by the model and then by the caller."""
        assert frame is not None
        inner = self.child(frame, module, model, span, path)
        own = self.arguments(model.call, None, inner)
        label = "" if model.call.label is None else self.path_text(model.call.label, inner)
        path = inner.join(label)
        found = module.find(model.call.callee)
        if found is None or isinstance(found[1], ast.Def):
            raise self.unknown(model.call, inner)
        named, mode = split_mode(own.named)
        own = replace(own, named=named)
        parameters = configuration(found[0], found[1])
        require_once(inner, model.call.callee, parameters, own, model.call.span)
        merged = overrides.over(own, parameters)
        if isinstance(found[1], ast.Model):
            built = self.model_application(found[0], found[1], merged, path, span, inner)
            return replace(built, mode=mode_below(mode, built.mode, inner, span))
        return Application(found[0], found[1], merged, path, span, mode=mode)

    def child(
        self,
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

    # --- blocks ----------------------------------------------------------------------------------

    def run_block(self, application: Application, frame: Frame) -> Results:
        """The results of a block, its signature matched and its `where` proved."""
        if not application.mode:
            return self._run_block(application, frame)
        with in_mode(application.mode, frame, application.span):
            return self._run_block(application, frame)

    def _run_block(self, application: Application, frame: Frame) -> Results:
        block, span = application.block, application.span
        inner = self.child(frame, application.module, block, span, application.path)
        inner.may_own = application.may_own
        if not inner.may_own:
            owned = own_parameters(inner.module, block)
            if owned:
                problem = MissingLabel(frame.location(span), block.name.text, owned)
                if frame.state.recovery is None:
                    raise ProblemError(problem)
                frame.state.recovery.add(problem)
                inner.may_own, inner.path = True, frame.join(f"#{inner.build.count}")
        config = bind_inputs(inner, block, application.arguments, span)
        config = take_initials(inner, block, config, span)
        bind_config(inner, block.name.text, block.parameters, config, span, self.evaluate)
        self._match(inner, block, span)
        if may_assume_signature(inner, block, self.evaluate):
            if not self._has_same_weights(inner, block):
                return self.run_body(inner, block)
            sure = sure_paths(inner.module, block) if inner.state.loops.open else ()
            for name in own_paths(inner.module, block):
                location = frame.location(span)
                path = inner.join(with_texts(block, name, inner.names))
                inner.state.claim(path, location, inner.label, is_sure=name in sure)
            return self.opaque_results(inner, block, dict(inner.names))
        if inner.state.context.summaries is not None:
            return apply_summary(
                inner,
                block,
                inner.state.context.summaries,
                self,
                lambda: self.run_body(inner, block),
            )
        return apply_template(inner, block, span, lambda: self._run_given(inner, block, span))

    def _run_given(self, inner: Frame, block: ast.Block, span: Span) -> Results:
        """Run a body; what fails in one that is proved for other numbers is said of the number."""
        try:
            return self.run_body(inner, block)
        except ProblemError as error:
            is_proved = inner.state.context.is_proved
            if is_proved is None or not is_of_numbers(error.problem):
                raise
            problem = outside_proof(inner, block, caller_location(inner, span))
            if problem is None or not is_proved(inner.module, block):
                raise
            raise ProblemError(problem) from error

    def _match(self, inner: Frame, block: ast.Block, span: Span) -> None:
        """Match inputs and configuration that are bound with the signature, and prove `where`."""
        self.require_blocks_fit(inner, block)
        match_inputs(inner, block, span, self.evaluate)
        fill_inputs(inner, block, self.evaluate)
        check_where(inner, block, lambda: caller_location(inner, span), self.stated)

    def assume_signature(self, inner: Frame, block: ast.Block) -> None:
        """Match inputs and configuration in symbols with the signature, and assume `where`."""
        self.require_blocks_fit(inner, block)
        match_inputs(inner, block, block.name.span, self.evaluate)
        fill_inputs(inner, block, self.evaluate)
        assume_where(inner, block, self.stated)

    def _has_same_weights(self, inner: Frame, block: ast.Block) -> bool:
        """Whether a layer is applied first, or again to what it was applied to first.

        If it is applied to something else, its first application is looked into, so that its
        weights are known, and a second one that needs others is refused.
        """
        proof, key = inner.state.proof, (inner.path, block)
        assert proof is not None
        if not inner.state.context.shared or key not in proof.assumed:
            proof.assumed[key] = inner, dict(inner.names)
            return True
        first, names = proof.assumed[key]
        if _types(names) == _types(inner.names):
            return True
        first.names = dict(names)
        self.run_body(first, block)
        return False

    def run_body(self, inner: Frame, block: ast.Block) -> Results:
        """Run a body whose signature is bound; in a proof, once for each path through it."""
        inner.state.body.applied.blocks.add(block)
        signature = inner.signature = dict(inner.names)
        if inner.state.proof is None:
            return self._path(inner, block, signature)
        return self._paths(inner, block, signature)

    def _path(self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated]) -> Results:
        results = self.execute(block.body, inner)
        name = block.name.text
        if results is None:
            raise ProblemError(
                NoResult(inner.location(block.name.span), name, "ends without `return`")
            )
        self._check_results(inner, block, signature, results)
        for name in inner.initials:
            if inner.state.proof is None and inner.join(name) not in inner.state.body.parameters:
                location = caller_location(inner, inner.call_span or block.name.span)
                raise ProblemError(UnknownParameter(location, block.name.text, name, (name,)))
        return results

    def _paths(self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated]) -> Results:
        state, facts, around = inner.state, inner.facts, inner.choices
        saved = state.body.savepoint()
        found: list[Results] = []
        path = ProofPath()
        if inner.parent is None:
            path = ProofPath(case=around.case, given=tuple(around.words))
        inner.choices = path
        while True:
            inner.names, inner.layers, inner.own = dict(signature), {}, set()
            inner.loop_labels = set()
            path.begin()
            state.build.facts = facts
            state.body.undo(saved, DECLARATIONS)
            if state.recovery is None or inner.parent is not None:
                found.append(self._path(inner, block, signature))
            else:
                self._recovered_path(inner, block, signature)
            if not path.advance():
                break
        state.build.facts, inner.choices = facts, around
        if not found:
            return ()
        return found[0] if len(found) == 1 else self._join(inner, block, signature, found)

    def _recovered_path(
        self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated]
    ) -> None:
        """One path through a block that was refused, for all that is wrong with it."""
        recovery = inner.state.recovery
        assert recovery is not None
        recovery.unknown.clear()
        try:
            self._path(inner, block, signature)
        except ProblemError as error:
            recovery.add(error.problem)
        except (EndOfPathError, UndecidableError, NeedsInliningError):
            pass

    def _join(
        self,
        inner: Frame,
        block: ast.Block,
        signature: Mapping[str, Evaluated],
        found: list[Results],
    ) -> Results:
        """What is known of the results whichever path was taken: their declared types."""
        if block.results is not None:
            return (
                found[0] if inner.parent is None else self.opaque_results(inner, block, signature)
            )
        types = [tuple(value.type for value in results) for results in found]
        if any(other != types[0] for other in types[1:]):
            raise UndecidableError(
                f"`{block.name.text}` has results of several shapes and declares none"
            )
        return self._leaves(inner, block, types[0])

    def opaque_results(
        self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated]
    ) -> Results:
        """Results of which nothing is known but the types a signature declares."""
        types = declared_types(inner, block, signature, self.evaluate)
        assert types is not None
        return self._leaves(inner, block, types)

    def _leaves(self, inner: Frame, block: ast.Block, types: tuple[TensorType, ...]) -> Results:
        for type_ in types:
            for size in type_.shape:
                if inner.state.differs_by_round(size):
                    location = caller_location(inner, inner.call_span or block.name.span)
                    raise ProblemError(DiffersByRound(location, f"the size `{show(size)}`"))
            require_countable(type_, inner.location(block.name.span), inner.facts)
        count = inner.build.count
        try:
            return tuple(
                inner.build.add(Input(f"#{count}.{index}", type_.dtype, type_.shape))
                for index, type_ in enumerate(types)
            )
        except Unproved as error:
            reason = f"whether {show_condition(error.condition)} depends on its configuration"
            raise UndecidableError(reason) from error

    def _check_results(
        self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated], results: Results
    ) -> None:
        declared = declared_types(inner, block, signature, self.evaluate, results)
        if declared is None:
            return
        name = block.name.text
        if len(declared) != len(results):
            fault = f"returns {counted(len(results), 'result')} and declares {len(declared)}"
            raise ProblemError(NoResult(inner.location(block.name.span), name, fault))
        for wanted, value in zip(declared, results, strict=True):
            self._check_result(inner, block, wanted, value)

    def _check_result(
        self, inner: Frame, block: ast.Block, wanted: TensorType, value: Tensor
    ) -> None:
        found = value.type
        if wanted.dtype is not found.dtype or wanted.rank != found.rank:
            raise self._result_mismatch(inner, block, wanted, value, Unknown())
        for left, right in zip(wanted.shape, found.shape, strict=True):
            verdict = equal(inner, left, right)
            if isinstance(verdict, Proved):
                continue
            if isinstance(verdict, Unknown) and inner.state.proof is not None:
                raise UndecidableError(
                    f"whether {show(left)} is {show(right)} depends on its configuration"
                )
            raise self._result_mismatch(inner, block, wanted, value, verdict)

    def _result_mismatch(
        self,
        inner: Frame,
        block: ast.Block,
        wanted: TensorType,
        value: Tensor,
        verdict: Verdict,
    ) -> ProblemError:
        found = value.type
        example = example_of(verdict, [("found", found.shape), ("declared", wanted.shape)])
        span = _last_return(block)
        written = span.text.removeprefix("return ") if len(block.results or ()) == 1 else ""

        def same(left: Size, right: Size) -> bool:
            return isinstance(equal(inner, left, right), Proved)

        cure = None
        if written and wanted.dtype is found.dtype:
            config = {each.name for each in block.parameters}
            cure = result_cure(value, written, wanted.shape, inner.names, config, same)
        sizes = str(wanted), str(found)
        return ProblemError(
            ResultMismatch(inner.location(span), block.name.text, *sizes, example, cure)
        )


def _is_true(node: ast.Node) -> bool:
    return isinstance(node, ast.Boolean) and node.value


def _last_return(block: ast.Block) -> Span:
    for statement in reversed(block.body):
        if isinstance(statement, ast.Return):
            return statement.span
    return block.name.span


def _types(names: Mapping[str, Evaluated]) -> dict[str, object]:
    """What a signature is bound to: types of tensors, and all else as it is."""
    return {name: each.type if is_tensor(each) else each for name, each in names.items()}
