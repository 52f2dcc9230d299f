"""How arguments meet a signature: configuration, tensors, `where` and declared results."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.argument_cures import (
    argument_order,
    conversion,
    insertion_cure,
    label_start,
    mask_cure,
    prediction_first,
    rank_cure,
)
from meganeura_dsl.elaborate.problems.location import Location, counted
from meganeura_dsl.elaborate.problems.name_problems import UnknownDType, WrongArguments, WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import deciding_fact, example_of
from meganeura_dsl.elaborate.problems.shape_cures import (
    elementwise_cure,
    expansion_cure,
    side_of,
)
from meganeura_dsl.elaborate.problems.shape_problems import (
    ArgumentMismatch,
    ElementTypeMismatch,
    RankMismatch,
    WhereUnproved,
)
from meganeura_dsl.elaborate.problems.training_problems import LabelsMismatch
from meganeura_dsl.elaborate.scope.scope import Frame, UndecidableError
from meganeura_dsl.elaborate.typecheck.config_kinds import fitted, with_open_numbers
from meganeura_dsl.elaborate.typecheck.positions import (
    facts_about,
    handed_on,
    names_in,
    negative_bound,
    position_of,
    positions_in,
    speaks_of,
)
from meganeura_dsl.elaborate.typecheck.probabilities import note_probabilities
from meganeura_dsl.elaborate.typecheck.shape_patterns import (
    Binder,
    Evaluate,
    Mismatch,
    pattern_text,
    size_names,
)
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import require_fit, scalar
from meganeura_dsl.elaborate.values import (
    Axes,
    Evaluated,
    Static,
    Tensor,
    TensorList,
    describe,
    is_number,
    is_size,
    is_static,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import (
    And,
    Compare,
    Condition,
    Proved,
    Unknown,
    Verdict,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast

Stated = Callable[[ast.Expression, Frame, ast.Block], Condition]
"""The condition of a clause of a block's `where`, in the frame of the block."""


@dataclass(frozen=True)
class Arguments:
    """What a call was given, tensors and configuration together."""

    positional: tuple[Evaluated, ...]
    named: Mapping[str, Evaluated]

    def config(self) -> tuple[tuple[Static, ...], tuple[tuple[str, Static], ...]]:
        """The part that is known before any data is."""
        positional = tuple(value for value in self.positional if is_static(value))
        named = tuple((name, value) for name, value in self.named.items() if is_static(value))
        return positional, named

    def over(self, defaults: "Arguments", parameters: Sequence[ast.Parameter]) -> "Arguments":
        """These arguments, with those of `defaults` where these are silent."""
        tensors = tuple(value for value in self.positional if is_tensor(value))
        positional = tuple(value for value in self.positional if not is_tensor(value))
        names = [parameter.name for parameter in parameters]
        kept = {**dict(zip(names, defaults.positional, strict=False)), **defaults.named}
        for name in names[: len(positional)]:
            kept.pop(name, None)
        return Arguments((*tensors, *positional), {**kept, **self.named})


def signature(
    name: str, parameters: Sequence[ast.Parameter], inputs: Sequence[ast.Input] = ()
) -> str:
    """A declaration's first line as one would call it."""
    config = [parameter.span.text for parameter in parameters]
    tensors = f"({', '.join(item.name for item in inputs)})" if inputs else ""
    return f"{name}({', '.join(config)}){tensors}"


def bind_inputs(inner: Frame, block: ast.Block, arguments: Arguments, span: Span) -> Arguments:
    """Bind the tensors of a call to the inputs of a block; what is left is configuration."""
    tensors = [value for value in arguments.positional if is_tensor(value)]
    named = dict(arguments.named)
    fault = None
    for item in block.inputs:
        value = named.pop(item.name, None)
        if value is None and tensors:
            value = tensors.pop(0)
        if value is None and item.default is not None:
            continue
        if value is not None and not is_tensor(value) and not item.type.shape.entries:
            value = _filled(inner, span, TensorType(dtype_of(item.type, inner), ()), value)
        if value is None:
            fault = f"needs a tensor `{item.name}`"
            break
        if not is_tensor(value):
            fault = f"needs a tensor as `{item.name}`"
            break
        inner.names[item.name] = value
    if fault is None and tensors:
        fault = f"takes {counted(len(block.inputs), 'tensor')}, and got {len(tensors)} more"
    if fault is not None:
        form = signature(block.name.text, block.parameters, block.inputs)
        raise ProblemError(
            WrongArguments(caller_location(inner, span), block.name.text, fault, form)
        )
    return Arguments(tuple(value for value in arguments.positional if not is_tensor(value)), named)


def bind_config(
    inner: Frame,
    name: str,
    parameters: Sequence[ast.Parameter],
    arguments: Arguments,
    span: Span,
    evaluate: Evaluate,
) -> None:
    """Bind configuration by position, by name, and by default, in that order."""
    positional, named = list(arguments.positional), dict(arguments.named)
    fault = None
    for parameter in parameters:
        default = None
        if positional:
            if parameter.name in named:
                fault = f"got `{parameter.name}` twice"
                break
            value = positional.pop(0)
        elif parameter.name in named:
            value = named.pop(parameter.name)
        elif parameter.default is not None:
            default = parameter.default
            value = evaluate(default, inner)
        else:
            fault = f"needs `{parameter.name}`"
            break
        if parameter.kind is not None or isinstance(value, TensorList | Dim):
            location = inner.location(default.span) if default else caller_location(inner, span)
            value = fitted(inner, name, parameter, value, location, evaluate)
        inner.names[parameter.name] = value
    names = [parameter.name for parameter in parameters]
    unknown = next((each for each in arguments.named if each not in names), "")
    if unknown:
        none = f"has no argument `{unknown}`"
        fault = none if fault is None else f"{none}, and {fault}"
    elif fault is None and positional:
        fault = f"got {counted(len(positional), 'argument')} too many"
    if fault is not None:
        form = signature(name, parameters)
        left = parameters[len(arguments.positional) :]
        known = tuple(each.name for each in left if each.name not in arguments.named)
        given_at = caller_location(inner, span)
        raise ProblemError(WrongArguments(given_at, name, fault, form, unknown, known))


def require_once(
    inner: Frame, name: str, parameters: Sequence[ast.Parameter], arguments: Arguments, span: Span
) -> None:
    """Raise `ProblemError` for an argument that is given twice, and for one too many."""
    names = [parameter.name for parameter in parameters]
    count = sum(not is_tensor(value) for value in arguments.positional)
    twice = next((each for each in names[:count] if each in arguments.named), None)
    if twice is None and count <= len(names):
        return
    over = counted(count - len(names), "argument")
    fault = f"got {over} too many" if twice is None else f"got `{twice}` twice"
    raise ProblemError(
        WrongArguments(inner.location(span), name, fault, signature(name, parameters))
    )


def caller_location(inner: Frame, span: Span) -> Location:
    """Where a block was applied, in the frame that applied it."""
    return inner.location(span) if inner.parent is None else inner.parent.location(span)


def match_inputs(inner: Frame, block: ast.Block, span: Span, evaluate: Evaluate) -> None:
    """Bind the sizes a signature names to those of the tensors given, all inputs at once."""
    binder = Binder(inner, evaluate)
    given = [(i, inner.names[i.name]) for i in block.inputs if i.name in inner.names]
    for item, value in given:
        assert is_tensor(value)
        _check_dtype(inner, block, item, value, span)
        _match(
            inner,
            block,
            item,
            value,
            span,
            lambda i=item, v=value: binder.match(i.type.shape, v.type.shape),
        )
    for item, value in given[-1:]:
        assert is_tensor(value)
        _match(inner, block, item, value, span, binder.finish)
    for _, value in given[:1]:
        assert is_tensor(value)
        note_probabilities(inner, block, value, caller_location(inner, span))


def fill_inputs(inner: Frame, block: ast.Block, evaluate: Evaluate) -> None:
    """Bind the inputs that a call gives no tensor for to their defaults."""
    for item in block.inputs:
        if item.default is not None and item.name not in inner.names:
            inner.names[item.name] = default_tensor(inner, item, item.default, evaluate)


def default_tensor(
    frame: Frame, item: ast.Input, default: ast.Expression, evaluate: Evaluate
) -> Tensor:
    """The tensor that an input is where none is given; a number or truth value is all over it."""
    wanted = TensorType(dtype_of(item.type, frame), shape_of(item.type.shape, frame, evaluate))
    value = evaluate(default, frame)
    if is_tensor(value):
        require_fit(frame, default.span, item.name, wanted, value)
        return value
    return _filled(frame, default.span, wanted, value)


def _filled(frame: Frame, span: Span, wanted: TensorType, value: Evaluated) -> Tensor:
    """A tensor that is one number or truth value everywhere."""
    match wanted.dtype:
        case DType.BOOL:
            words, fits = "true or false", isinstance(value, bool)
        case DType.F32 | DType.F16:
            words, fits = "a number", is_number(value)
        case DType.I32 | DType.U32:
            words, fits = "a whole number", is_size(value)
    if not fits or not isinstance(value, int | float | Dim):
        problem = WrongKind(frame.location(span), f"a tensor or {words}", describe(value))
        raise ProblemError(problem)
    filled = scalar(frame, span, value, wanted.dtype, wanted.shape)
    frame.state.values.fill_values[filled.id] = value
    return filled


def require_given_sizes(frame: Frame, block: ast.Block) -> None:
    """Refuse an input with a default whose sizes are not those of what a call always gives."""
    sizes: dict[bool, list[ast.Expression | ast.Rest]] = {False: [], True: []}
    for item in block.inputs:
        sizes[item.default is not None] += item.type.shape.entries
    known = {parameter.name for parameter in block.parameters}
    for entry in sizes[False]:
        known.update([entry.name] if isinstance(entry, ast.Rest) else size_names(entry))
    for entry in sizes[True]:
        named = [entry.name] if isinstance(entry, ast.Rest) else size_names(entry)
        if not known.issuperset(named):
            wanted = "a size of the inputs that are always given, or of the configuration"
            raise ProblemError(WrongKind(frame.location(entry.span), wanted, entry.span.text))


def _match(
    inner: Frame,
    block: ast.Block,
    item: ast.Input,
    value: Tensor,
    span: Span,
    match: Callable[[], None],
) -> None:
    try:
        match()
    except Mismatch as mismatch:
        raise ProblemError(
            _argument_problem(inner, block, item, value, span, mismatch)
        ) from mismatch


def _argument_problem(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span, mismatch: Mismatch
) -> ArgumentMismatch | LabelsMismatch | RankMismatch:
    location = caller_location(inner, span)
    first = inner.names[block.inputs[0].name]
    is_loss = inner.module.is_library and block.inputs[0].name in PREDICTIONS
    if is_loss and item is not block.inputs[0] and is_tensor(first):
        of_classes = block.inputs[0].name == LOGITS and item.name != TARGET
        return _labels_problem(location, value, first, mismatch, of_classes=of_classes)
    declared = pattern_text(item.type.shape)
    if mismatch.axis is None or mismatch.wanted is None or mismatch.found is None:
        what = f"`{item.name}` of `{block.name.text}`"
        cure = _expanded(inner, item, value, location.span.text)
        if cure is None and inner.module.is_library:
            axes = [show(size) for size in value.type.shape]
            cure = rank_cure(block.name.text, item.name, axes)
        return RankMismatch(location, what, declared, str(value.type), cure)
    condition = Compare("==", mismatch.wanted, mismatch.found)
    example = (
        None
        if mismatch.verdict is None
        else example_of(mismatch.verdict, [("found", value.type.shape)])
    )
    described = f"{declared}, where axis {mismatch.axis} is {show(mismatch.wanted)}"
    fact = deciding_fact(inner.facts, condition)
    return ArgumentMismatch(
        location,
        block.name.text,
        item.name,
        described,
        str(value.type),
        mismatch.axis,
        example,
        fact,
        f"axis {mismatch.axis} is {show(mismatch.found)} here, and {show(mismatch.wanted)} by what "
        f"`{block.name.text}` is given besides: pass a tensor of that size",
        argument_order(location.span.text, [each.name for each in block.inputs]),
    )


def _expanded(inner: Frame, item: ast.Input, value: Tensor, call: str) -> Help | None:
    """How an argument given by name comes to the axes of its input, if all are known."""
    sizes: list[str] = []
    for entry in item.type.shape.entries:
        size = inner.names.get(entry.text, "") if isinstance(entry, ast.Name) else ""
        if not is_size(size):
            return None
        sizes.append(show(size))
    given = re.search(rf"\b{item.name}=(?P<value>[\w.]+)", call)
    if given is None or inner.parent is None:
        return None
    side = side_of(given["value"], value.type.shape)
    return expansion_cure(side, sizes, sizes) or insertion_cure(side, sizes)


LOGITS, TARGET = "logits", "target"
PREDICTIONS = (LOGITS, "prediction")
"""What the losses of the library call their first input."""


def _labels_problem(
    location: Location, labels: Tensor, logits: Tensor, mismatch: Mismatch, *, of_classes: bool
) -> LabelsMismatch:
    """The refusal of what a loss compares with predictions: classes, or values of their shape."""
    if mismatch.axis is None or mismatch.wanted is None or mismatch.found is None:
        found, wanted = labels.type.rank, logits.type.rank
        axis = f"{found} {'axis' if found == 1 else 'axes'} against {wanted}"
    else:
        sizes = f"{show(mismatch.wanted)}{' classes' if of_classes else ''}"
        axis = f"axis {mismatch.axis}: {sizes} against {show(mismatch.found)}"
    shapes = show_shape(labels.type.shape), show_shape(logits.type.shape)
    if of_classes and _are_classes(labels, logits):
        words, cure = _of_rows(labels, logits, location.span.text)
        return LabelsMismatch(location, *shapes, words, cure, is_stretched=False)
    if of_classes:
        indices = show_shape(logits.type.shape[:-1])
        cure = Help(f"class indices are  i32{indices}        one-hot targets are  {shapes[1]}")
        return LabelsMismatch(location, *shapes, axis, cure)
    call = re.fullmatch(r"\w+\((?P<prediction>.+), (?P<target>\w+)\)", location.span.text)
    names = (call["target"], call["prediction"]) if call else ("target", "prediction")
    sides = side_of(names[0], labels.type.shape), side_of(names[1], logits.type.shape)
    known = {axis for side in sides for axis in side.axes}
    cure = elementwise_cure(*sides, known)
    if labels.type.rank == logits.type.rank or cure is None or "rearrange(" not in str(cure.code):
        cure = Help(f"give both one shape, such as {shapes[1]}: nothing is stretched or repeated")
    return LabelsMismatch(location, *shapes, axis, cure, ("the target", "the prediction"))


def _are_classes(labels: Tensor, logits: Tensor) -> bool:
    """Whether labels are whole numbers along all axes of the rows, of which some are not equal."""
    return not labels.type.dtype.is_float and labels.type.rank == logits.type.rank - 1


def _of_rows(labels: Tensor, logits: Tensor, call: str) -> tuple[str, Help]:
    """Which axis of the rows differs, and what to leave out where one side has more."""
    pairs = list(zip(logits.type.shape, labels.type.shape, strict=False))
    axis = next(at for at, (rows, given) in enumerate(pairs) if rows != given)
    rows, given = pairs[axis]
    words = f"axis {axis}: {show(rows)} rows of logits against {show(given)} labels"
    more = rows - given
    written = re.match(r"\w+(?:\([^()]*\))?\((?P<logits>[\w.]+),", call)
    if isinstance(more, int) and more > 0:
        begin = label_start(labels, logits, axis)
        if begin is not None and begin != 1 and axis > 0:
            following = "[" + ", ".join([*(":" for _ in range(axis)), "1:"]) + "]"
            return words, Help(
                f"each row has one label, and these begin {show(begin)} behind the rows: where\n"
                f"the next token is predicted, the labels are `{following}` of the sequence"
            )
        if begin == 1 and written is not None:
            part = ", ".join([*(":" for _ in range(axis)), f":{show(given)}"])
            code = f"{written['logits']}[{part}]"
            return words, Help("each row has one label: leave out the rows that have none", code)
        return words, Help(
            "each row has one label: leave out the rows that have none, which depends on\n"
            "the position that each label belongs to"
        )
    return words, Help(f"each row has one label: i32{show_shape(logits.type.shape[:-1])}")


def _check_dtype(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span
) -> None:
    written = item.type.dtype
    if written == "any" or (written is None and value.type.dtype.is_float):
        return
    wanted = "f32 or f16" if written is None else written
    if written != value.type.dtype.value:
        what = f"`{item.name}` of `{block.name.text}` is {wanted}"
        location, found = caller_location(inner, span), str(value.type)
        place, shape = block.inputs.index(item), show_shape(value.type.shape)
        cure = conversion(location.span, item.name, place, wanted, shape)
        if written == DType.BOOL.value and value.type.dtype.is_float:
            has_bias = any(each.name == "bias" for each in block.inputs)
            cure = mask_cure(item.name, has_bias=has_bias)
        if inner.module.is_library and place == 0 and item.name in PREDICTIONS:
            cure = prediction_first(location.span.text) or cure
        raise ProblemError(ElementTypeMismatch(location, what, found, cure))


def dtype_of(node: ast.Type, frame: Frame) -> DType:
    """The element type written, f32 where none is."""
    if node.dtype is None:
        return DType.F32
    try:
        return DType(node.dtype)
    except ValueError:
        raise ProblemError(UnknownDType(frame.location(node.span), node.dtype)) from None


@contextmanager
def without_configuration(location: Location) -> Generator[None]:
    """Where none is to come: what depends on a configuration is a `ProblemError` at `location`."""
    try:
        yield
    except UndecidableError as error:
        raise ProblemError(
            WrongKind(location, "a configuration that is known", error.reason)
        ) from error


def shape_of(pattern: ast.Pattern, frame: Frame, evaluate: Evaluate) -> tuple[Size, ...]:
    """The shape a pattern stands for when every name in it is known."""
    shape: list[Size] = []
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            axes = frame.names.get(entry.name)
            shape.extend(axes if isinstance(axes, Axes) else ())
            continue
        size = evaluate(entry, frame)
        if not is_size(size):
            raise ProblemError(WrongKind(frame.location(entry.span), "a size", describe(size)))
        shape.append(size)
    return tuple(shape)


def declared_types(
    inner: Frame,
    block: ast.Block,
    names: Mapping[str, Evaluated],
    evaluate: Evaluate,
    results: Sequence[Tensor] = (),
) -> tuple[TensorType, ...] | None:
    """The result types a signature promises, in terms of what it bound; None if it is silent.

    A result type without an element type is f32, or that of the result where an input is f16.
    """
    if block.results is None:
        return None
    frame = Frame(
        inner.state, inner.module, inner.name, dict(names), inner.path,
        parent=inner.parent, call_span=inner.call_span, choices=inner.choices,
    )  # fmt: skip
    types: list[TensorType] = []
    given = (names[item.name] for item in block.inputs if item.name in names)
    of_halves = any(is_tensor(each) and each.type.dtype is DType.F16 for each in given)
    for index, node in enumerate(block.results):
        dtype = dtype_of(node, frame)
        is_open = of_halves and node.dtype is None and index < len(results)
        if is_open and results[index].type.dtype.is_float:
            dtype = results[index].type.dtype
        types.append(TensorType(dtype, shape_of(node.shape, frame, evaluate)))
    return tuple(types)


def check_where(
    inner: Frame,
    block: ast.Block,
    caller: Callable[[], Location],
    condition: Stated,
) -> None:
    """Prove every clause of a block's `where` at its call; of data that is fed, assume it."""
    is_fed = inner.parent is not None and inner.parent.declaration is None
    given, free = with_open_numbers(inner, block), set[str]()
    for name in positions_in(block):
        value = inner.names[name]
        symbol = (
            inner.state.values.symbolic_ints.get(value.id) if is_fed and is_tensor(value) else None
        )
        if is_tensor(value) and not is_fed:
            symbol = handed_on(inner, value)
        if not isinstance(symbol, Dim):
            given = _with_position(inner, given, block, caller(), name)
        else:
            given = replace(given, names={**given.names, name: symbol})
            free |= symbol.variables() & inner.state.values.lasting_symbols
    for clause in block.where:
        stated = condition(clause, given, block)
        for part in stated.parts if isinstance(stated, And) else (stated,):
            if part is True:
                continue
            verdict = facts_about(inner, part).decide(part)
            is_open = is_fed and speaks_of(inner, part)
            if not isinstance(part, bool) and not free.isdisjoint(sizes_in(part)):
                is_open = True
            if is_open and inner.facts.truth(part) is not False:
                inner.build.facts = inner.facts.assume(part)
            elif not isinstance(verdict, Proved):
                problem = _unmet(inner, block, caller(), clause, part, verdict)
                smallest = _smallest(given, block, clause, condition)
                raise ProblemError(replace(problem, cure=smallest or problem.cure))


def assume_where(inner: Frame, block: ast.Block, condition: Stated) -> None:
    """Take every clause of a block's `where` for true, as it was proved where the block stands."""
    given = inner
    for name in positions_in(block):
        given = _with_position(inner, given, block, inner.location(block.name.span), name)
    for clause in block.where:
        inner.build.facts = inner.facts.assume(condition(clause, given, block))


def _with_position(
    inner: Frame, given: Frame, block: ast.Block, caller: Location, name: str
) -> Frame:
    """The frame of a `where` in which an input `i32[]` is the size that was given for it."""
    value = inner.names[name]
    clause = next(each for each in block.where if name in names_in(each))
    size = position_of(inner, value) if is_tensor(value) else None
    if size is None:
        unknown = f"nothing is known of what is given for `{name}`"
        location = inner.location(clause.span)
        raise ProblemError(
            WhereUnproved(caller, block.name.text, clause.span.text, unknown, location, None, "")
        )
    least = Compare(">=", size, 0)
    verdict = facts_about(inner, least).decide(least)
    if negative_bound(block, name) is None and not isinstance(verdict, Proved):
        raise ProblemError(_unmet(inner, block, caller, clause, least, verdict))
    return replace(given, names={**given.names, name: size})


LARGEST_TRIED = 4096
"""Sizes that are tried when looking for the smallest that works."""


def _smallest(
    inner: Frame,
    block: ast.Block,
    clause: ast.Expression,
    condition: Stated,
) -> str:
    """The smallest size of an axis for which a clause about known sizes would hold, as advice."""
    axes = {
        entry.text
        for item in block.inputs
        for entry in item.type.shape.entries
        if isinstance(entry, ast.Name)
    }
    if isinstance(clause, ast.Binary) and clause.operator == "==":
        sides = (clause.left, clause.right)
        if not any(isinstance(each, ast.Binary) and each.operator == "%" for each in sides):
            return ""  # that two sizes are equal is no reason to change one of them
    groups = _divisors(inner, block, clause)
    if groups:
        return groups
    for name in size_names(clause):
        given = inner.names.get(name)
        if name not in axes or not isinstance(given, int):
            continue
        for size in range(given + 1, LARGEST_TRIED):
            inner.names[name] = size
            if condition(clause, inner, block) is True:
                inner.names[name] = given
                return f"the smallest `{name}` that works is {size}"
        inner.names[name] = given
    return ""


def _divisors(inner: Frame, block: ast.Block, clause: ast.Expression) -> str:
    """Advice on a number of the configuration that has to divide a size, both of them known."""
    match clause:
        case ast.Binary(
            operator="==",
            left=ast.Binary(operator="%", left=ast.Name(text=size), right=ast.Name(text=name)),
            right=ast.Integer(value=0),
        ):
            whole, given = inner.names.get(size), inner.names.get(name)
        case _:
            return ""
    if name not in {each.name for each in block.parameters} or isinstance(whole, bool):
        return ""
    if not (isinstance(whole, int) and isinstance(given, int) and 0 < whole <= LARGEST_TRIED):
        return ""
    fitting = [str(each) for each in range(1, whole + 1) if whole % each == 0]
    near = min(map(int, fitting), key=lambda each: (abs(each - given), -each))
    return (
        f"what divides {whole} is {', '.join(fitting[:-1])}{' and ' if fitting[:-1] else ''}"
        f"{fitting[-1]}: the nearest `{name}` is {near}"
    )


def _unmet(
    inner: Frame,
    block: ast.Block,
    caller: Location,
    clause: ast.Expression,
    part: Condition,
    verdict: Verdict,
) -> WhereUnproved:
    if isinstance(verdict, Unknown) and inner.state.proof is not None:
        raise UndecidableError(f"whether {show_condition(part)} depends on its configuration")
    return _where_problem(inner, block, caller, clause, part, verdict)


def _where_problem(
    inner: Frame,
    block: ast.Block,
    caller: Location,
    clause: ast.Expression,
    part: Condition,
    verdict: Verdict,
) -> WhereUnproved:
    tensors = [
        (item.name, value.type.shape)
        for item in block.inputs
        if is_tensor(value := inner.names[item.name])
    ]
    described = "" if isinstance(part, bool) else f", that is {show_condition(part)}"
    if described.endswith(f" {clause.span.text}"):
        described = ""
    values = "  ".join(
        f"{name}={text}"
        for name in size_names(clause)
        if (text := _shown(inner.names.get(name, ""))) not in ("", name)
    )
    depthwise = _of_depthwise(inner, block, clause)
    return WhereUnproved(
        caller,
        block.name.text,
        f"{clause.span.text}{described}",
        values,
        Location(clause.span),
        example_of(verdict, tensors),
        ""
        if depthwise or _is_about_element(inner, part) or _of_causal(inner, clause, part)
        else deciding_fact(inner.facts, part),
        depthwise
        or _advice(part)
        or _of_width(inner, block, clause)
        or _of_causal(inner, clause, part),
    )


def _of_depthwise(inner: Frame, block: ast.Block, clause: ast.Expression) -> str:
    """Advice for a convolution with a group for each channel that comes in, and other channels."""
    groups, incoming = inner.names.get("groups", ""), inner.names.get("c_in", "")
    is_own = inner.module.is_library and clause.span.text == "c % groups == 0"
    if not (is_own and is_size(groups) and is_size(incoming)) or groups != incoming:
        return ""
    kept, window, asked = (_shown(inner.names.get(name, "")) for name in ("c_in", "k", "c"))
    called = block.name.text
    return (
        f"a depthwise convolution keeps the channels: `{called}({kept}, {window}, groups={kept})`,"
        f"\nand `{called}({asked}, 1)` behind it makes others; for several filters a channel state "
        f"`{asked} % {kept} == 0`"
    )


def _of_width(inner: Frame, block: ast.Block, clause: ast.Expression) -> str:
    """Advice for a norm of the library whose `eps` is a width, as other systems are given one."""
    eps = inner.names.get("eps", "")
    if clause.span.text != "eps < 1" or not is_size(eps) or not inner.module.is_library:
        return ""
    before = [
        show(value)
        for parameter in block.parameters[: [each.name for each in block.parameters].index("eps")]
        if is_size(value := inner.names.get(parameter.name, ""))
    ]
    call = block.name.text + (f"({', '.join(before)})" if before else "")
    return f"the width of what comes in is never written: `{call}`"


def _of_causal(inner: Frame, clause: ast.Expression, part: Condition) -> str:
    """Advice for causal attention between two sequences, whose positions have no common order."""
    is_causal = inner.module.is_library and "causal" in names_in(clause)
    if not (is_causal and isinstance(part, Compare)):
        return ""
    sides = (part.left, part.right)
    if not all(show(side).isidentifier() for side in sides):
        return ""
    return (
        f"queries of {show(part.left)} positions and keys of {show(part.right)} have no order in\n"
        "common: leave out `causal`; what one sequence is given of itself has one size"
    )


def _advice(part: Condition) -> str:
    """What to do about two sizes that are to be equal, and are bound independently."""
    if not isinstance(part, Compare) or part.operator != "==" or isinstance(part.right, int):
        return ""
    return (
        f"nothing makes {show(part.left)} and {show(part.right)} equal: apply it to tensors for\n"
        "which it holds; if both are one size, write it with one name where they come from"
    )


def _shown(value: Evaluated) -> str:
    """A number that is known, or a size; empty for anything else."""
    return repr(value) if isinstance(value, float) else show(value) if is_size(value) else ""


def _is_about_element(inner: Frame, part: Condition) -> bool:
    """Whether a condition is about a number that has no name in the program."""
    return not sizes_in(part).isdisjoint(inner.state.values.symbol_ranges)
