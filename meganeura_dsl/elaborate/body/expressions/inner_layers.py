"""Layers inside of a layer, by a path that begins with its label: `net.blocks[0].fc`."""

from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.problems.gradient_problems import NoWeights
from meganeura_dsl.elaborate.problems.name_problems import UnknownName, WrongKind
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.layer_weights import is_known, names_below
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.syntax import ast


def inner_layer(label: str, node: ast.Expression, frame: Frame) -> BoundBlock | None:
    """Returns the layer of a path inside of a layer or a model; None if the path is none.

    Its declaration is that of the layer around it: only its weights are asked for. Raises E0593 for
    a layer that was not applied, and E0201 for a path that has no weights below it.
    """
    outer, rest = layer_around(label, frame)
    if outer is None:
        return None
    location = frame.location(node.span)
    written = label.removesuffix(f".{rest}")
    require_looked_into(outer, label, frame)
    if not is_known(outer, frame):
        raise ProblemError(NoWeights(location, written, is_applied=False))
    below = names_below(outer, frame)
    full = next((name for inner, name in below.items() if inner.startswith(f"{rest}.")), None)
    if full is None:
        if rest in below:
            return None  # a parameter, which is read by its path
        known = dict.fromkeys(
            f"{written}.{'.'.join(words[:count])}"
            for words in (inner.split(".") for inner in below)
            for count in range(1, len(words))
        )
        raise ProblemError(UnknownName(location, label, "layer", nearest(label, known)))
    inner = next(inner for inner, name in below.items() if name == full)
    number = inner.removeprefix(f"{rest}.").partition(".")[0]
    if number.isdigit():
        cure = Help("name one of them", f"{label}[{number}]")
        raise ProblemError(WrongKind(location, "the label of one layer", "that of several", cure))
    return replace(outer, path=full.removesuffix(inner) + rest, span=node.span)


def layer_around(label: str, frame: Frame) -> tuple[BoundBlock | None, str]:
    """Returns the layer or the model that a path begins with, and the rest of the path."""
    words = label.split(".")
    for count in range(len(words) - 1, 0, -1):
        layer = frame.layers.get(".".join(words[:count]))
        if layer is not None:
            return layer, ".".join(words[count:])
    found = frame.module.find(words[0])
    if found is not None and isinstance(found[1], ast.Model) and len(words) > 1:
        return BoundBlock(found[1], module=found[0]), ".".join(words[1:])
    return None, ""


def require_looked_into(outer: BoundBlock, label: str, frame: Frame) -> None:
    """Raise unless this elaboration knows the layers inside of a layer."""
    proof, path = frame.state.proof, outer.path
    if proof is None:
        return
    if proof.flags_if_proved is not None:
        raise NeedsInliningError(None if path is None else proof.assumed_around(f"{path}.x"))
    if path is not None and any(f"{path}.".startswith(f"{each}.") for each in proof.contracts):
        raise UndecidableError(f"the weights of `{label}` are those of a block that is given")
