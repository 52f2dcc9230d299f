"""A block as a function of JAX."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from meganeura_runtime.export.source.block_writer import BlockWriter, Forms, SourceFile
from meganeura_runtime.export.source.text import PathPart
from meganeura_runtime.export.source.unit import Unit


class JaxWriter(BlockWriter, ABC):
    """Writes a function of JAX: of a dictionary of its parameters, if it has any."""

    namespace = "jnp"
    renamed: ClassVar[Mapping[str, str]] = {"logistic": "jax.nn.sigmoid", "erf": "jax.lax.erf"}

    def __init__(self, unit: Unit, source: SourceFile, forms: Forms) -> None:
        super().__init__(unit, source, forms)
        self.outputs: dict[str, str | None] = {}
        """Tensors that `jax.lax.scan` collects, and the name of the place of each slice, if any."""

    def keys(self) -> str:
        """The name of the source of random numbers, which the function takes then."""
        self.unit.draws = True
        self.source.helper("random_keys")
        return "keys"


def access(steps: Sequence[PathPart]) -> str:
    """The text of what a path names, below the parameters of the block."""
    text = "params"
    for each in steps:
        match each.kind:
            case "index" if not each.text.isdigit():
                text += f"[str({each.text})]"
            case "computed":
                text += f'[f"{each.text}"]'
            case _:
                text += f'["{each.text}"]'
    return text
