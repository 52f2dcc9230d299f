"""Configuration that does nothing in evaluation: probabilities with which something is dropped.

A network whose layers differ in such a number alone has equal layers where nothing is trained.
"""

from collections.abc import Iterator

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast

TRAINING = "training"


def idle_numbers(
    module: LinkedModule, block: ast.Block, known: dict[ast.Block, frozenset[str]]
) -> frozenset[str]:
    """The configuration that a body reads under `if training` alone, itself or in other blocks.

    `known` has what was found before, and gets what is found.
    """
    found = known.get(block)
    if found is None:
        known[block] = frozenset()  # what applies itself has none
        names = {each.name for each in block.parameters}
        read = {name for name in _reads(module, block, known) if name in names}
        found = known[block] = frozenset(names - read)
    return found


def _reads(
    module: LinkedModule, block: ast.Block, known: dict[ast.Block, frozenset[str]]
) -> Iterator[str]:
    """The names that are read where nothing is trained, but for those only handed on in vain."""
    skipped: set[int] = set()
    nodes = [node for statement in block.body for node in walk(statement)]
    for node in nodes:
        match node:
            case ast.If(condition=ast.Name(text="training"), then=then):
                skipped.update(id(each) for statement in then for each in walk(statement))
            case ast.Call():
                skipped.update(map(id, _in_vain(module, node, known)))
            case _:
                pass
    for node in nodes:
        if isinstance(node, ast.Name) and id(node) not in skipped:
            yield node.text
        elif isinstance(node, ast.Call):
            yield node.callee


def _in_vain(
    module: LinkedModule, call: ast.Call, known: dict[ast.Block, frozenset[str]]
) -> Iterator[ast.Name]:
    """The names among the arguments of a call that the block does not read."""
    match module.find(call.callee):
        case owner, ast.Block() as block if call.path is None:
            pass
        case _:
            return
    if any(each.name == TRAINING for each in call.arguments):
        return
    idle = idle_numbers(owner, block, known)
    names = [each.name for each in block.parameters]
    for number, each in enumerate(call.arguments):
        # Some of the arguments before it may be tensors, which are no configuration.
        least = max(0, number - len(block.inputs))
        may_be = [each.name] if each.name is not None else names[least : number + 1]
        if isinstance(each.value, ast.Name) and may_be and idle.issuperset(may_be):
            yield each.value
