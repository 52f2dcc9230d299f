"""The optimizers of a program as classes, as those that are built in."""

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from hashlib import sha256
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

from pydantic import Field

from meganeura_dsl.elaborate.declarations.optimizer_rules import (
    RuleArgument,
    rule_arguments,
    rule_graph,
)
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.syntax import ast
from meganeura_dsl.transforms.optimizers.declared import DeclaredOptimizer
from meganeura_dsl.transforms.optimizers.hyperparameters import Positive

DeclaredOptimizers = Mapping[str, type[DeclaredOptimizer]]
"""The optimizers that a program declares or imports, by name."""

_KINDS: Mapping[str, object] = {
    "real": float,
    "int": int,
    "size": Annotated[int, Field(ge=1)],
    "bool": bool,
}
_classes: WeakKeyDictionary[ast.Optimizer, type[DeclaredOptimizer]] = WeakKeyDictionary()


def declared_optimizers(module: LinkedModule) -> DeclaredOptimizers:
    """The optimizers that settings of a file may name. Raises `ProblemError` for a wrong header."""
    return {name: _class_of(*found) for name, found in module.optimizers.items()}


def declared_by(settings: RunSettings) -> DeclaredOptimizers:
    """The optimizers of the program among those that settings have chosen."""
    chosen = (settings.optimizer, *settings.optimizers.values())
    return {each.word: type(each) for each in chosen if isinstance(each, DeclaredOptimizer)}


def _class_of(module: LinkedModule, node: ast.Optimizer) -> type[DeclaredOptimizer]:
    """The class of an optimizer, one for each declaration."""
    if node not in _classes:
        _classes[node] = _made(module, node)
    return _classes[node]


def _made(module: LinkedModule, node: ast.Optimizer) -> type[DeclaredOptimizer]:
    graphs: dict[tuple[str, TensorType], Graph] = {}
    texts = "\0".join(source.text for source, _ in module.sources())
    digest = sha256(texts.encode()).hexdigest()

    def rule(self: DeclaredOptimizer, of: TensorType) -> Graph:
        key = str(self), of
        if key not in graphs:
            graphs[key] = rule_graph(module, node, self.arguments, of)
        return graphs[key]

    def shown(self: DeclaredOptimizer) -> str:
        """Its text and that of its rule, as a cache has to know both."""
        return f"{self} by {digest}"

    name = node.name.text
    made = make_dataclass(
        name,
        [_field(each) for each in rule_arguments(module, node)],
        bases=(DeclaredOptimizer,),
        namespace={"word": name, "rule": rule, "__repr__": shown},
        frozen=True,
        repr=False,
        kw_only=True,
    )
    assert issubclass(made, DeclaredOptimizer)
    return made


def _field(argument: RuleArgument) -> tuple[str, object, object]:
    """An argument as a field of a dataclass, with the values it takes as its type."""
    kind = Literal[argument.texts] if argument.texts else _KINDS[argument.kind]
    kind = Positive if argument.name == ast.RATE else kind
    given = field() if argument.default is None else field(default=argument.default)
    return argument.name, kind, given
