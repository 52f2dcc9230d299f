"""Tensors given to a block, matched with the types of its inputs; defaults of those not given."""

from collections.abc import Callable

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.argument_cures import (
    classes_cure,
    conversion,
    mask_cure,
    one_hot_cure,
    prediction_first,
)
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import ElementTypeMismatch
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.input_mismatches import PREDICTIONS, argument_problem
from meganeura_dsl.elaborate.typecheck.probabilities import note_probabilities
from meganeura_dsl.elaborate.typecheck.shape_patterns import Binder, Mismatch, size_names
from meganeura_dsl.elaborate.typecheck.single_choices import note_applied
from meganeura_dsl.elaborate.typecheck.tensor_values import require_fit, scalar
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of, shape_of
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    describe,
    is_number,
    is_size,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


def match_inputs(inner: Frame, block: ast.Block, span: Span) -> None:
    """Bind the sizes a signature names to those of the tensors given, all inputs at once."""
    binder = Binder(inner)
    given = [(i, inner.names[i.name]) for i in block.inputs if i.name in inner.names]
    for item, value in given:
        assert is_tensor(value)
        _check_dtype(inner, block, item, value, span)
        _match_or_refuse(
            inner,
            block,
            item,
            value,
            span,
            lambda i=item, v=value: binder.match(i.type.shape, v.type.shape),
        )
    try:
        binder.finish()
    except Mismatch as mismatch:
        owned = [each for each in given if mismatch.entry in each[0].type.shape.entries]
        item, value = (owned or given)[-1]
        assert is_tensor(value)
        raise ProblemError(
            argument_problem(inner, block, item, value, span, mismatch)
        ) from mismatch
    for _, value in given[:1]:
        assert is_tensor(value)
        note_probabilities(inner, block, value, inner.caller_location(span))
        note_applied(inner, block, value, span)


def fill_inputs(inner: Frame, block: ast.Block) -> None:
    """Bind the inputs that a call gives no tensor for to their defaults."""
    for item in block.inputs:
        if item.default is not None and item.name not in inner.names:
            inner.names[item.name] = default_tensor(inner, item, item.default)


def default_tensor(frame: Frame, item: ast.Input, default: ast.Expression) -> Tensor:
    """The tensor that an input is where none is given; a number or truth value is all over it."""
    wanted = TensorType(dtype_of(item.type, frame), shape_of(item.type.shape, frame))
    value = frame.evaluate(default)
    if is_tensor(value):
        require_fit(frame, default.span, item.name, wanted, value)
        return value
    return constant_tensor(frame, default.span, wanted, value)


def constant_tensor(frame: Frame, span: Span, wanted: TensorType, value: ElabValue) -> Tensor:
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


def _match_or_refuse(
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
            argument_problem(inner, block, item, value, span, mismatch)
        ) from mismatch


def _check_dtype(
    inner: Frame, block: ast.Block, item: ast.Input, value: Tensor, span: Span
) -> None:
    written = item.type.dtype
    if written == "any" or (written is None and value.type.dtype.is_float):
        return
    wanted = "f32 or f16" if written is None else written
    if written != value.type.dtype.value:
        what = f"`{item.name}` of `{block.name.text}` is {wanted}"
        location, found = inner.caller_location(span), str(value.type)
        place, shape = block.inputs.index(item), show_shape(value.type.shape)
        cure = conversion(location.span, item.name, place, wanted, shape)
        if written == DType.BOOL.value and value.type.dtype.is_float:
            has_bias = any(each.name == "bias" for each in block.inputs)
            cure = mask_cure(item.name, has_bias=has_bias)
        first = inner.names.get(block.inputs[0].name, "")
        if inner.module.is_library and place == 1 and is_tensor(first):
            given = cure.code or ""
            written = given.removeprefix("f32(").removesuffix(")")
            cure = one_hot_cure(written, value, first) or cure
        if inner.module.is_library and place == 0 and item.name in PREDICTIONS:
            others = [inner.names.get(each.name, "") for each in block.inputs[1:2]]
            is_float = any(is_tensor(each) and each.type.dtype.is_float for each in others)
            swapped = prediction_first(location.span.text) if is_float else None
            cure = classes_cure(value, location.span.text) or swapped or cure
        raise ProblemError(ElementTypeMismatch(location, what, found, cure))
