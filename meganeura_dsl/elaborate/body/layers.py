"""Layers and block values: applied, configured, declared, applied again.

A block value is a block with some of its configuration given. With a path it is a layer: what it is
applied to, its weights are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.assume_signature import is_known_size
from meganeura_dsl.elaborate.body.block_arguments import BlockArguments
from meganeura_dsl.elaborate.body.expressions import OWN_PATH
from meganeura_dsl.elaborate.body.layer_copies import source_path
from meganeura_dsl.elaborate.body.modes import in_mode, mode_below, split_mode
from meganeura_dsl.elaborate.body.statements import Results
from meganeura_dsl.elaborate.builtins.initial_values import passed_on
from meganeura_dsl.elaborate.problems.layer_problems import HasWeights, NoSuchLabel
from meganeura_dsl.elaborate.problems.location import counted
from meganeura_dsl.elaborate.problems.name_problems import (
    DuplicatePath,
    WrongArguments,
    WrongKind,
)
from meganeura_dsl.elaborate.scope.linker import LinkedModule, block_behind, configuration
from meganeura_dsl.elaborate.scope.own_paths import own_initials
from meganeura_dsl.elaborate.scope.scope import MODES, BoundBlock, Frame, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import labels_like, layer_text
from meganeura_dsl.elaborate.typecheck.shape_patterns import solved_names
from meganeura_dsl.elaborate.typecheck.signatures import (
    Arguments,
    bind_config,
    bind_inputs,
    check_where,
    match_inputs,
    signature,
)
from meganeura_dsl.elaborate.values import (
    Evaluated,
    OpenText,
    describe,
    is_static,
    is_tensor,
)
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


class Layers(BlockArguments, ABC):
    """Applies block values and layers; what a block does is for the subclass."""

    @abstractmethod
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

    @abstractmethod
    def arguments(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Arguments:
        """What a call is given, evaluated."""

    @abstractmethod
    def unknown(self, call: ast.Call, frame: Frame) -> ProblemError:
        """The error that nothing has the name of a call."""

    @abstractmethod
    def child(
        self,
        frame: Frame,
        module: LinkedModule,
        declaration: ast.Def | ast.Block | ast.Model,
        span: Span,
        path: str,
    ) -> Frame:
        """The frame of an application inside of another."""

    @abstractmethod
    def opaque_results(
        self, inner: Frame, block: ast.Block, signature: Mapping[str, Evaluated]
    ) -> Results:
        """Results of which nothing is known but the types a signature declares."""

    def in_scope(self, call: ast.Call, frame: Frame) -> BoundBlock | None:
        """The layer of this name, or the block that configuration of this name is."""
        if call.path is not None:
            return self._numbered(call, call.path, frame)
        layer = frame.layers.get(call.callee) if call.label is None else None
        if layer is not None:
            return layer
        value = frame.names.get(call.callee)
        return value if isinstance(value, BoundBlock) else None

    def _numbered(self, call: ast.Call, path: ast.Path, frame: Frame) -> BoundBlock:
        """The layer whose label has these numbers, `layers[i]`.

        In a proof for all numbers, which of the layers that a loop labelled is left to each model.
        """
        label = self.path_text(path, frame)
        layer = frame.layers.get(label)
        if layer is not None:
            return layer
        numbers = [part for part in path.parts if not isinstance(part, str)]
        values = [
            self.evaluate(each.value if isinstance(each, ast.Splice) else each, frame)
            for each in numbers
        ]
        is_open = bool(frame.loop_labels) or any(isinstance(n, Dim | OpenText) for n in values)
        if frame.state.proof is not None and is_open and labels_like(path, frame.declaration):
            raise UndecidableError(f"which layer `{layer_text(call)}` is depends on numbers")
        raise ProblemError(NoSuchLabel(frame.location(path.span), label))

    def apply_value(
        self,
        call: ast.Call,
        value: BoundBlock,
        arguments: Arguments,
        piped: Evaluated | None,
        frame: Frame,
    ) -> Evaluated:
        """The results of a block; or where no tensor is given, the block with its configuration."""
        tensors = (*arguments.positional, *arguments.named.values())
        if piped is None and call.label is None and not any(map(is_tensor, tensors)):
            block = block_behind(value.module, value.declaration)
            if block is None or block.inputs:
                return self._configured(call, value, arguments, frame)
        results = self.apply_block(call, value, arguments, frame)
        return results[0] if len(results) == 1 else results

    def apply_block(
        self, call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
    ) -> Results:
        """The results of a block value, applied as `call` says."""
        if not any(name in MODES for name in (*arguments.named, *dict(value.config))):
            return self._apply_bare(call, value, arguments, frame)
        config, own = split_mode(dict(value.config))
        named, mode = split_mode(arguments.named)
        bare = replace(value, config=tuple(each for each in value.config if each[0] in config))
        mode = mode_below(own, mode, frame, call.span)
        with in_mode(mode, frame, call.span):
            results = self._apply_bare(call, bare, replace(arguments, named=named), frame)
        if call.label is not None and mode:
            self._remember_mode(call, mode, frame)
        return results

    def _remember_mode(self, call: ast.Call, mode: Mapping[str, Evaluated], frame: Frame) -> None:
        """A layer that is applied again is in the mode it was labelled with."""
        assert call.label is not None
        name = self.path_text(call.label, frame) or OWN_PATH
        layer = frame.layers[name]
        static = tuple((each, value) for each, value in mode.items() if is_static(value))
        frame.layers[name] = replace(layer, config=(*layer.config, *static))

    def _apply_bare(
        self, call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
    ) -> Results:
        if value.path is not None:
            return self._apply_again(call, value, arguments, frame)
        given = self._filled(call, value, arguments, frame)
        return self._apply_layer(call, value, given, frame)

    def _configured(
        self, call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
    ) -> BoundBlock:
        """A block with more of its configuration given."""
        if value.path is not None:
            self._refuse_configuration(call, arguments, frame)
        block = block_behind(value.module, value.declaration)
        names = [each.name for each in configuration(value.module, value.declaration)]
        self._refuse_number_for_tensor(call, block, arguments, frame)
        given = self._filled(call, value, arguments, frame)
        known = [*names, *MODES, *(() if block is None else own_initials(value.module, block))]
        config = self._by_name(call, names, given, frame)
        unknown = next((name for name in config if name not in known), None)
        if unknown is not None:
            form = signature(value.name, configuration(value.module, value.declaration))
            fault = f"has no argument `{unknown}`"
            free = tuple(name for name in names if name not in config)
            raise ProblemError(
                WrongArguments(frame.location(call.span), value.name, fault, form, unknown, free)
            )
        static = tuple((name, each) for name, each in config.items() if is_static(each))
        return replace(value, config=static, span=call.span)

    def _refuse_number_for_tensor(
        self, call: ast.Call, block: ast.Block | None, arguments: Arguments, frame: Frame
    ) -> None:
        """Something is given where a tensor is due, and no tensor."""
        if block is None:
            return
        fault = next(
            (
                f"needs a tensor as `{each.name}`"
                for each in block.inputs
                if each.name in arguments.named
            ),
            "",
        )
        if arguments.positional and not block.parameters:
            fault = f"needs a tensor `{block.inputs[0].name}`"
        if fault:
            form = signature(call.callee, block.parameters, block.inputs)
            raise ProblemError(WrongArguments(frame.location(call.span), call.callee, fault, form))

    def _filled(
        self, call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
    ) -> Arguments:
        """The arguments, with what the block value was given; positions count what is left."""
        if not value.config:
            return arguments
        given = dict(value.config)
        left = [
            each.name
            for each in configuration(value.module, value.declaration)
            if each.name not in given
        ]
        tensors = tuple(each for each in arguments.positional if is_tensor(each))
        named = self._by_name(call, left, arguments, frame)
        twice = next((name for name in named if name in given and name not in MODES), None)
        if twice is not None:
            fault = f"got `{twice}` twice"
            form = signature(value.name, configuration(value.module, value.declaration))
            raise ProblemError(WrongArguments(frame.location(call.span), value.name, fault, form))
        return Arguments(tensors, {**given, **named})

    def _by_name(
        self, call: ast.Call, names: Sequence[str], arguments: Arguments, frame: Frame
    ) -> dict[str, Evaluated]:
        """Configuration by name, where positions are those of `names`."""
        positional = [each for each in arguments.positional if not is_tensor(each)]
        if len(positional) > len(names):
            fault = f"got {counted(len(positional) - len(names), 'argument')} too many"
            form = f"{call.callee}({', '.join(names)})"
            raise ProblemError(WrongArguments(frame.location(call.span), call.callee, fault, form))
        by_position = dict(zip(names, positional, strict=False))
        twice = next((name for name in by_position if name in arguments.named), None)
        if twice is not None:
            form = f"{call.callee}({', '.join(names)})"
            fault = f"got `{twice}` twice"
            raise ProblemError(WrongArguments(frame.location(call.span), call.callee, fault, form))
        return {**by_position, **arguments.named}

    def declare_layer(self, statement: ast.Layer, frame: Frame) -> None:
        """Make a layer known under its path; its weights are made when it is first applied."""
        call = statement.call
        assert call.label is not None
        name, location = self.path_text(call.label, frame), frame.location(statement.span)
        if name in frame.layers:
            first = frame.layers[name].declared
            raise ProblemError(HasWeights(location, name, first or location))
        if call.inputs:
            fault = "is declared here, and gets its tensors where it is applied"
            form = f"x |> {name}"
            raise ProblemError(WrongArguments(location, call.callee, fault, form))
        value = self._declared_block(call, frame)
        if value.path is not None:
            wanted, found = "a block, whose weights are new", describe(value)
            raise ProblemError(WrongKind(frame.location(call.callee_span), wanted, found))
        path = frame.join(name)
        frame.state.body.declared_layers.setdefault(path, len(frame.state.body.parameters))
        frame.state.body.unapplied_layers.add(path)
        frame.layers[name] = replace(value, path=path, declared=location)
        if frame.state.loops.open:
            frame.state.note_repeated(path, HasWeights(location, name, location))
        if statement.source is not None:
            other = self.path_text(statement.source, frame)
            frame.state.body.copies[path] = source_path(statement.source, other, frame), location

    def _declared_block(self, call: ast.Call, frame: Frame) -> BoundBlock:
        """The block, with its configuration, that a `layer` statement names."""
        arguments = self.arguments(call, None, frame)
        value = self.in_scope(replace(call, label=None), frame)
        if value is None:
            found = frame.module.find(call.callee)
            if found is None or isinstance(found[1], ast.Def):
                raise self.unknown(call, frame)
            value = BoundBlock(found[1], module=found[0])
        return self._configured(call, value, arguments, frame)

    def _apply_again(
        self, call: ast.Call, layer: BoundBlock, arguments: Arguments, frame: Frame
    ) -> Results:
        assert layer.path is not None
        if call.label is not None:
            first = layer.declared or frame.location(call.span)
            raise ProblemError(HasWeights(frame.location(call.span), layer.path, first))
        self._refuse_configuration(call, arguments, frame)
        tensors = tuple(value for value in arguments.positional if is_tensor(value))
        given = Arguments(tensors, {**dict(layer.config), **arguments.named})
        is_first = layer.path in frame.state.body.unapplied_layers
        frame.state.body.unapplied_layers.discard(layer.path)
        if layer.is_contract:
            return self._apply_contract(call, layer, given, frame, claims=is_first)
        if is_first:
            with frame.state.shared_later():
                return self.instantiate(
                    layer.module, layer.declaration, given, layer.path, call.span, frame
                )
        return self._sharing(layer.module, layer.declaration, given, layer.path, call.span, frame)

    def _refuse_configuration(self, call: ast.Call, arguments: Arguments, frame: Frame) -> None:
        """A layer that is in scope has its configuration."""
        static = [each for each in arguments.positional if not is_tensor(each)]
        named = [
            name
            for name, value in arguments.named.items()
            if not is_tensor(value) and name not in MODES
        ]
        if static or named:
            fault = "is applied again, so its configuration is fixed"
            raise ProblemError(
                WrongArguments(frame.location(call.span), call.callee, fault, f"x |> {call.callee}")
            )

    def _apply_contract(
        self,
        call: ast.Call,
        value: BoundBlock,
        arguments: Arguments,
        frame: Frame,
        *,
        claims: bool,
    ) -> Results:
        """In a proof, the results of any block that fits a header, of which only it is known."""
        block, path = value.declaration, value.path
        assert isinstance(block, ast.Block)
        assert path is not None
        inner = self.child(frame, value.module, block, call.span, path)
        config = bind_inputs(inner, block, arguments, call.span)
        known = {each.name for each in block.parameters}
        for name in config.named:
            if name not in known:
                raise UndecidableError(f"whether `{block.name.text}` has a parameter `{name}`")
        bind_config(inner, block.name.text, block.parameters, config, call.span, self.evaluate)
        match_inputs(inner, block, call.span, self.evaluate)
        check_where(inner, block, lambda: frame.location(call.span), self.stated)
        for name in solved_names(block):
            if not is_known_size(inner, name):
                raise UndecidableError(f"whether `{name}` of `{block.name.text}` is 1 or more")
        assert frame.state.proof is not None
        frame.state.proof.contracts.add(path)
        if claims:
            frame.state.claim(path, frame.location(call.span), inner.label)
            if path != frame.path:
                frame.state.claim_below(path, frame.location(call.span), inner.label)
        return self.opaque_results(inner, block, dict(inner.names))

    def _apply_layer(
        self, call: ast.Call, value: BoundBlock, arguments: Arguments, frame: Frame
    ) -> Results:
        module, declaration = value.module, value.declaration
        label = "" if call.label is None else self.path_text(call.label, frame)
        path = frame.join(label)
        name = label or OWN_PATH
        if call.label is not None:
            known = frame.layers.get(name)
            if known is not None and known.declared is not None:
                location = frame.location(call.label.span)
                raise ProblemError(HasWeights(location, name, known.declared))
            if not call.label.parts:
                arguments = passed_on(arguments, call, frame)
        owns = call.label is not None or isinstance(declaration, ast.Model)
        config = arguments.config() if owns else ((), ())
        if value.is_contract:
            bound = replace(value, path=path)
            claims = call.label is not None
            results = self._apply_contract(call, bound, arguments, frame, claims=claims)
        else:
            if call.label is None and isinstance(declaration, ast.Model):
                before = frame.state.body.models.get((declaration, path))
                if before == config:
                    return self._sharing(module, declaration, arguments, path, call.span, frame)
                frame.state.body.models[declaration, path] = config
                if before is not None:
                    return self._with_other_arguments(
                        module, declaration, arguments, path, call, frame
                    )
                with frame.state.shared_later():
                    return self.instantiate(
                        module, declaration, arguments, path, call.span, frame, may_own=owns
                    )
            results = self.instantiate(
                module, declaration, arguments, path, call.span, frame, may_own=owns
            )
        if call.label is not None:
            names = [each.name for each in configuration(module, declaration)]
            given = {**dict(zip(names, config[0], strict=False)), **dict(config[1])}
            frame.layers[name] = BoundBlock(
                declaration, tuple(given.items()), path, value.is_contract, module=module
            )
        return results

    def _with_other_arguments(
        self,
        module: LinkedModule,
        model: ast.Model,
        arguments: Arguments,
        path: str,
        call: ast.Call,
        frame: Frame,
    ) -> Results:
        """The results of a model that was applied with other arguments, where it has no weights."""
        try:
            return self.instantiate(module, model, arguments, path, call.span, frame, may_own=True)
        except ProblemError as error:
            if not isinstance(error.problem, DuplicatePath):
                raise
            location, name = frame.location(call.span), model.name.text
            raise ProblemError(replace(error.problem, location=location, model=name)) from error

    def _sharing(
        self,
        module: LinkedModule,
        declaration: ast.Block | ast.Model,
        arguments: Arguments,
        path: str,
        span: Span,
        frame: Frame,
    ) -> Results:
        """The results of a layer that was applied before, with the weights it has."""
        with frame.state.within(shared=True):
            return self.instantiate(module, declaration, arguments, path, span, frame)
