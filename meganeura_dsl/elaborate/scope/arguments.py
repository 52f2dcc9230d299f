"""The arguments of a call, before they are matched with a signature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.elaborate.values import ElabValue, StaticValue, is_static, is_tensor
from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, tensors and configuration together."""

    positional: tuple[ElabValue, ...]
    named: Mapping[str, ElabValue]

    def config(self) -> tuple[tuple[StaticValue, ...], tuple[tuple[str, StaticValue], ...]]:
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
