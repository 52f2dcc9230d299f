"""`grad`: the slope of a scalar with respect to a name, as a value of the graph.

It is reverse mode on the graph as it stands, made of primitive ops that have gradients themselves,
so that a gradient of a gradient is one more walk.
"""

from collections.abc import Collection

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.problems.gradient_problems import (
    GradientAcrossIterations,
    GradientOfNoScalar,
    GradientOfUnread,
)
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.gradient_names import with_respect_to
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.tensor_values import scalar as scalar_tensor
from meganeura_dsl.elaborate.values import (
    BlockValue,
    ElabValue,
    LayerWeights,
    NamedResults,
    Tensor,
    TensorList,
    assumed_tensor,
    describe,
    is_assumed_tensor,
    is_tensor,
)
from meganeura_dsl.ir.graph import Origin, dependencies
from meganeura_dsl.ir.objectives import Moved
from meganeura_dsl.ir.ops import Constant, Parameter
from meganeura_dsl.ir.ops.primitive.reverse_mode import pull_back
from meganeura_dsl.symbolic.assumptions import Unproved
from meganeura_dsl.syntax import ast


def grad(call: BuiltinCall) -> ElabValue:
    """The gradient of a scalar with respect to a name, which has the type of what is named.

    With respect to weights it is one for each tensor: 0 for one that the scalar does not read, if
    it reads another.
    """
    if isinstance(call.frame.declaration, ast.Def):
        name = call.frame.declaration.name.text
        cure = Help(
            f"`{name}` is a formula, and has no values to differentiate: leave the call of `grad` "
            "out,\nand write it where the formula is used",
            f"y = {name}(...)\ng = grad(y, x)",
        )
        where = "stands in a block or a `train`, not in `def`"
        raise call.frame.refuse(call.span, "`grad`", where, cure)
    scalar = _scalar(call)
    name, value = _named(call)
    if not isinstance(value, LayerWeights):
        return _gradients(call, scalar, name, (value,))[0]
    layer = value.layer if value.is_changed else ""
    return value.changed(_gradients(call, scalar, name, value.tensors, layer))


def _gradients(
    call: BuiltinCall, scalar: Tensor, name: str, values: tuple[Tensor, ...], layer: str = ""
) -> list[Tensor]:
    """Returns the gradient with respect to each value; raises E0589 if the scalar reads none.

    `layer` is that whose weights the name is bound to, if it is.
    """
    for scan in call.frame.state.scans.values():
        for value in values:
            _refuse_iterations(call, scan, scalar, name, value)
    build = call.frame.build
    with build.at(Origin(call.frame.user_span(call.span), call.frame.path)):
        one = build.add(Constant(1.0, scalar.type.dtype))
    try:
        with call.frame.state.uncertain.with_iterations(build):
            found = pull_back(build, {scalar: one}, values)
    except Unproved as error:
        raise call.frame.refused(call.span, error) from error
    if all(each is not None for each in found):
        return [each for each in found if each is not None]
    below = dependencies([scalar])
    results = [
        _unknown(call, value, below) if each is None else each
        for value, each in zip(values, found, strict=True)
    ]
    is_zero = (
        call.frame.state.uncertain.is_any_empty
    )  # an iteration that is not there may read them
    if is_zero or any(each is not None for each in results):
        return [
            _zero(call, value) if each is None else each
            for value, each in zip(values, results, strict=True)
        ]
    first = values[0]
    bound = first.origin.span if not isinstance(first.op, Parameter | Moved) else None
    location, is_read = call.frame.location(call.span), any(each in values for each in below)
    raise ProblemError(GradientOfUnread(location, name, bound, is_read, layer))


def _unknown(call: BuiltinCall, value: Tensor, below: Collection[Tensor]) -> Tensor | None:
    """Returns a gradient of which only the type is known, if the scalar may read the value.

    What a layer that is known by its header gives may read any value that is older.
    """
    may_read = any(is_assumed_tensor(each) and each.id > value.id for each in below)
    return assumed_tensor(call.frame.build, value.type) if may_read else None


def _zero(call: BuiltinCall, value: Tensor) -> Tensor:
    return scalar_tensor(call.frame, call.span, 0, value.type.dtype, value.type.shape)


def _scalar(call: BuiltinCall) -> Tensor:
    """Returns the float without axes that is differentiated; raises E0588 for anything else."""
    scalar = call.option(0, "scalar")
    if isinstance(scalar, BlockValue):
        cure = Help("it is that of a value, not of a function: apply it first", "grad(sum(y), x)")
        location = call.frame.location(call.span)
        raise ProblemError(WrongKind(location, "a tensor f32[]", describe(scalar), cure))
    if not is_tensor(scalar):
        raise call.wrong("a tensor f32[], such as `sum(...)`", scalar)
    if scalar.type.rank or not scalar.type.dtype.is_float:
        location = call.frame.location(call.span)
        x, node = call.option(1, "x"), with_respect_to(call.node)
        is_turned = is_tensor(x) and not x.type.rank and scalar.type.rank > 0
        swapped = node.span.text if node is not None and is_turned else ""
        has_axes = scalar.type.rank > 0
        raise ProblemError(GradientOfNoScalar(location, str(scalar.type), has_axes, swapped))
    return scalar


def _named(call: BuiltinCall) -> tuple[str, Tensor | LayerWeights]:
    """Returns the name to differentiate with respect to, and the float tensor it is bound to.

    In place of a tensor there may be weights.
    """
    value, node = call.option(1, "x"), with_respect_to(call.node)
    assert node is not None
    text = " ".join(node.span.text.split())
    wanted, found, cure = "a name bound to a float tensor", describe(value), ""
    if isinstance(value, LayerWeights):
        if isinstance(node, ast.Name) or not value.is_changed:
            return text, value
        found = f"`{text}`"
        cure = Help("name them before they are read, and read the name", f"w = {text}")
    elif isinstance(value, BlockValue):
        cure = Help(
            f"that of one weight is by its path, `{text}.weight`; that of all of them by",
            f"grad(scalar, weights({text}))",
        )
    elif isinstance(value, list | TensorList):
        cure = Help("one call for each", "grad(scalar, x)")
    elif isinstance(node, ast.Attribute) and _is_result(node, call.frame):
        found, cure = (
            f"`{text}`",
            Help("name it before it is read, and read the name", f"h = {text}"),
        )
    elif not isinstance(node, ast.Name | ast.Attribute):
        found = f"`{text}`" if is_tensor(value) else found
        cure = Help("name it before it is read, and read the name", f"y = {text}")
    elif not is_tensor(value):
        cure = "only a tensor has a gradient: numbers are known before there is data"
    elif not value.type.dtype.is_float:
        cure = "whole numbers and bools have no gradient: take that of a float made of them"
    else:
        return text, value
    raise ProblemError(WrongKind(call.frame.location(node.span), wanted, found, cure))


def _is_result(node: ast.Attribute, frame: Frame) -> bool:
    """True if an attribute is a result of several that have one name."""
    base = node.base
    return isinstance(base, ast.Name) and isinstance(frame.names.get(base.text), NamedResults)


def _refuse_iterations(
    call: BuiltinCall, scan: OpenScan, scalar: Tensor, name: str, value: Tensor
) -> None:
    """Refuse a gradient that would go through what the iterations before left.

    That is one with respect to a name that is bound outside of a scan, of what reads a carried
    name, or slices of the tensor itself.
    """
    if scan.region.depends(value):
        return
    carried = {**scan.carried, **scan.states}
    by_id = {each.id: carry for carry, each in carried.items() if each.type.dtype.is_float}
    for each in dependencies([scalar]):
        sliced = scan.region.slices.get(each.id)
        is_sliced = sliced is not None and value in dependencies([sliced.source])
        if is_sliced or each.id in by_id:
            location = call.frame.location(call.span)
            read = by_id.get(each.id, "")
            raise ProblemError(GradientAcrossIterations(location, name, read, str(scan.index)))
