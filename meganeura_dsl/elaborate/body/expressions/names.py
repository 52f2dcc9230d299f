"""Literals, names, and paths of parameters such as `fc.weight`."""

from collections.abc import Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.other_name_words import GRADIENT
from meganeura_dsl.diagnostics.other_names import Answer, Form, other_names
from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.expressions.inner_layers import inner_layer
from meganeura_dsl.elaborate.body.expressions.labels import OWN_PATH, path_item_text, splice_text
from meganeura_dsl.elaborate.body.expressions.result_access import (
    require_results,
    result_named,
    result_paths,
)
from meganeura_dsl.elaborate.body.expressions.scan_reads import note_read
from meganeura_dsl.elaborate.builtins.builtin_math import UNARY
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.builtins.initial_values import WORDS as INITIALS
from meganeura_dsl.elaborate.problems.binding_problems import SizeOfPattern
from meganeura_dsl.elaborate.problems.layer_problems import NoSuchLabel
from meganeura_dsl.elaborate.problems.name_problems import (
    BoundOnOtherSide,
    EndedWithScan,
    NoFirstValue,
    NotBegun,
    UnknownName,
    UnreadName,
    WrongKind,
)
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.pattern_sizes import size_in_pattern
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.contracts import function_block
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast

_TURNED = ("T", "mT")
"""Attributes that transpose the last two axes of a tensor in other systems."""

_OF_SIZES = (Form("shape(x)", "x.shape"), Form("size(x, 1)", "x.shape[1]"))


def evaluate_literal(node: ast.Integer | ast.Real | ast.Text | ast.Boolean, _: Frame) -> ElabValue:
    """The value of a number, text or truth value as it is written."""
    return node.value


def evaluate_name(node: ast.Name, frame: Frame) -> ElabValue:
    """The value of a name: bound here, a parameter, a word of the language, or a block."""
    value = frame.names.get(node.text)
    if value is not None:
        if frame.state.scans:
            note_read(frame, node.text, value)
        return value
    if node.text == "training":
        return frame.state.context.training
    if node.text in INITIALS:
        return INITIALS[node.text]
    own = _parameter(node.text, frame) if OWN_PATH in frame.layers else None
    if own is not None:
        return own
    block = block_named(node, frame)
    if block is not None:
        return block
    location = frame.location(node.span)
    layer = layer_words(node.text, frame)
    if layer is not None:
        cure = "a function is no value: apply it where it stands"
        raise ProblemError(WrongKind(location, "a value", layer, cure))
    if node.text in frame.scan_locals:
        raise ProblemError(EndedWithScan(location, node.text, types=frame.scan_locals[node.text]))
    scan = next(reversed(frame.state.scans.values()), None)
    if scan is not None and scan.frame is frame and node.text in scan.parts:
        raise ProblemError(NotBegun(location, node.text))
    if scan is not None and scan.frame is frame:
        bound = scan.bound.get(node.text)
        if bound is not None:
            raise ProblemError(NoFirstValue(location, node.text, first=_first_axes(bound, frame)))
    of_pattern = size_in_pattern(node, frame.declaration)
    if of_pattern is not None:
        pattern, size = of_pattern
        raise ProblemError(SizeOfPattern(location, node.text, pattern=pattern, size=size))
    choice = _choice_without(node, frame)
    if choice is not None:
        raise ProblemError(choice)
    known = [*frame.names, "training", *_bound_above(node, frame)]
    kind = UnreadName if node.text in frame.module.unread else UnknownName
    raise ProblemError(kind(location, node.text, "value", nearest(node.text, known)))


def layer_named(node: ast.Expression, frame: Frame) -> ElabValue:
    """The layer of a label such as `net` or `layers[i]`; the value of any other expression."""
    label = _dotted(node, frame)
    if label is None or (isinstance(node, ast.Name) and label in frame.names):
        return frame.evaluate(node)
    layer = frame.layers.get(label)
    if layer is not None:
        return replace(layer, span=node.span)
    inside = None if isinstance(node, ast.Name) else inner_layer(label, node, frame)
    if inside is not None:
        return inside
    labels = [*frame.layers, *frame.loop_labels]
    numbered = next((each for each in labels if each.startswith(f"{label}.")), None)
    location = frame.location(node.span)
    if numbered is not None:
        number = numbered.removeprefix(f"{label}.").partition(".")[0]
        cure = Help("name one of them", f"{label}[{number if number.isdigit() else 0}]")
        raise ProblemError(WrongKind(location, "the label of one layer", "that of several", cure))
    beside = [each for each in labels if _is_beside(each, label)]
    if beside and not isinstance(node, ast.Name):
        if not all(each.rpartition(".")[2].isdigit() for each in beside):
            raise UndecidableError(f"which layer `{node.span.text}` is depends on numbers")
        raise ProblemError(NoSuchLabel(location, label))
    if isinstance(node, ast.Name) and frame.module.find(label) is None:
        close = nearest(label, frame.layers)
        if close:
            raise ProblemError(UnknownName(location, label, "layer", close))
    return frame.evaluate(node)


def _is_beside(one: str, other: str) -> bool:
    """Returns True if two labels differ in their last component alone."""
    return one.rpartition(".")[0] == other.rpartition(".")[0] != ""


def _choice_without(node: ast.Name, frame: Frame) -> BoundOnOtherSide | None:
    """The problem of a name that one side alone of a choice above binds, if one does."""
    if not isinstance(frame.declaration, ast.Block | ast.Train):
        return None
    for statement in frame.declaration.body:
        for each in walk(statement):
            if not isinstance(each, ast.If) or each.span.end > node.span.start:
                continue
            sides = [_binding(node.text, side) for side in (each.then, each.otherwise)]
            if node.span.source is not each.span.source or None not in sides or sides == [None] * 2:
                continue
            value = next(side.value for side in sides if side is not None)
            begins = value
            while isinstance(begins, ast.Pipe):
                begins = begins.source
            return BoundOnOtherSide(
                frame.location(node.span),
                node.text,
                choice=each.span,
                begins=begins.text if isinstance(begins, ast.Name) else "",
                has_else=bool(each.otherwise),
            )
    return None


def _binding(name: str, side: Sequence[ast.Statement]) -> ast.Bind | None:
    """The first line of a side of a choice that binds a name."""
    bound = (each for statement in side for each in walk(statement) if isinstance(each, ast.Bind))
    return next((each for each in bound if name in {it.text for it in each.targets}), None)


def _bound_above(node: ast.Name, frame: Frame) -> list[str]:
    """The names that lines above bind, of which some may have been refused."""
    block = frame.declaration
    if not isinstance(block, ast.Block | ast.Train):
        return []
    return [
        target.text
        for statement in block.body
        for each in walk(statement)
        if isinstance(each, ast.Bind)
        for target in each.targets
        if target.span.start < node.span.start and target.span.source is node.span.source
    ]


def _first_axes(bound: ast.Bind, frame: Frame) -> tuple[str, ...]:
    """The axes of an iteration's value, by the layers that compute it; empty if they do not say.

    They are those of a step of what it reads, with the number of channels that the layers make.
    """
    calls = [each for each in walk(bound.value) if isinstance(each, ast.Call)]
    made = {
        each.arguments[0].value.span.text
        for each in calls
        if each.callee == "linear" and each.arguments
    }
    steps = [
        value
        for each in walk(bound.value)
        if isinstance(each, ast.Subscript) and isinstance(each.base, ast.Name)
        if is_tensor(value := frame.names.get(each.base.text, ""))
    ]
    if len(made) != 1 or not steps or steps[0].type.rank != 3:
        return ()
    return (show(steps[0].type.shape[0]), *made)


def block_named(node: ast.Name, frame: Frame) -> BoundBlock | None:
    """The layer in scope, block, model or function of one tensor that has a name."""
    layer = frame.layers.get(node.text)
    if layer is not None:
        return replace(layer, span=node.span)
    match frame.module.find(node.text):
        case module, (ast.Block() | ast.Model()) as declaration:
            return BoundBlock(declaration, span=node.span, module=module)
        case None if node.text in UNARY:
            return replace(function_block(node.text), span=node.span)
        case _:
            return None


def layer_words(name: str, frame: Frame) -> str | None:
    """A description of the layer or function of a name for messages; None if there is none."""
    found = frame.module.find(name)
    match found[1] if found is not None else None:
        case ast.Block():
            return f"the block `{name}`"
        case ast.Model():
            return f"the model `{name}`"
        case ast.Optimizer():
            return f"the optimizer `{name}`"
        case ast.Def():
            return f"the function `{name}`"
        case None if name in frame.layers:
            return f"the layer `{name}`"
        case None:
            return f"the function `{name}`" if name in BUILTINS else None


def evaluate_attribute(node: ast.Attribute | ast.Spliced, frame: Frame) -> ElabValue:
    """A result of a block by its name, or the parameter or state at a path such as `fc.weight`."""
    relative = _dotted(node, frame)
    if isinstance(node, ast.Attribute):
        result = result_named(node, frame, is_path=relative is not None)
        if result is not None:
            return result
    if relative is None:
        raise ProblemError(
            WrongKind(frame.location(node.span), "a parameter's path", node.span.text)
        )
    value = frame.names.get(relative) or _parameter(relative, frame)
    if value is not None:
        return value
    foreign = _foreign(relative, frame)
    if foreign is None and isinstance(node, ast.Attribute):
        require_results(node, frame)
    prefix = f"{frame.path}." if frame.path else ""
    known = [key.removeprefix(prefix) for key in frame.state.body.leaves if key.startswith(prefix)]
    location = frame.location(node.span)
    close = nearest(relative, [*known, *result_paths(frame)])
    raise ProblemError(UnknownName(location, relative, "parameter", close, foreign))


def _foreign(dotted: str, frame: Frame) -> Answer | None:
    """Returns the answer to an attribute of tensors in other systems, such as `k.T`."""
    base, _, name = dotted.rpartition(".")
    if name == "grad":
        return Answer(GRADIENT, (Form(f"grad(scalar, {base})", dotted),))
    value = frame.names.get(base)
    if value is None or not is_tensor(value):
        return None
    if name == "shape":
        return Answer("sizes are in the signature, and these are functions", _OF_SIZES)
    if name in _TURNED and value.type.rank >= 2:
        axes = [str(size) for size in value.type.shape]
        if len(set(axes)) == len(axes) and all(map(str.isidentifier, axes)):
            turned = [*axes[:-2], axes[-1], axes[-2]]
            code = f"rearrange({base}, [{', '.join(axes)}] -> [{', '.join(turned)}])"
            return Answer("", (Form(code, dotted),))
    return other_names().get(name)


def evaluate_spliced(node: ast.Spliced, frame: Frame) -> ElabValue:
    """A parameter or state that this block declares, or one of a layer, by its name."""
    return evaluate_attribute(node, frame)


def _dotted(node: ast.Expression, frame: Frame) -> str | None:
    """`wte.weight` or `weight_l{k}` as text, if the expression is a path."""
    match node:
        case ast.Name(text=text):
            return text
        case ast.Attribute(base=base, name=name):
            prefix = _dotted(base, frame)
            return None if prefix is None else f"{prefix}.{name}"
        case ast.Subscript(base=base, entries=(entry,)) if isinstance(entry, ast.Integer) or not (
            isinstance(entry, ast.Range | ast.EllipsisEntry)
            or (isinstance(base, ast.Name) and base.text in frame.names)
        ):
            prefix = _dotted(base, frame)
            return None if prefix is None else f"{prefix}.{path_item_text(entry, frame)}"
        case ast.Spliced(base=base, value=value):
            prefix = _dotted(base, frame)
            return None if prefix is None else prefix + splice_text(value, frame)
        case _:
            return None


def _parameter(relative: str, frame: Frame) -> Tensor | None:
    """The parameter at a path inside this layer, if there is one."""
    name = frame.join(relative)
    if name in frame.state.body.leaves:
        return frame.state.current(name)
    proof = frame.state.proof
    if proof is None:
        return None
    if proof.flags_if_proved is not None:
        raise NeedsInliningError(proof.assumed_around(name))
    if any(name.startswith(f"{path}.") for path in proof.contracts if path):
        raise UndecidableError(f"`{relative}` is a weight of a block that is given")
    return None
