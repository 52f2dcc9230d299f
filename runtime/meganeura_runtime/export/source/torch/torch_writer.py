"""A block as a class of PyTorch, with a constructor, or as a function."""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter, Forms, SourceFile
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.paths import Key, path_key
from meganeura_runtime.export.source.text import Create, Statement, python_name
from meganeura_runtime.export.source.torch.module_attributes import ATTRIBUTES
from meganeura_runtime.export.source.torch.modules import Modules
from meganeura_runtime.export.source.unit import Unit


@dataclass(frozen=True)
class CarriedWidth:
    """An axis of a tensor that a loop rebinds, and the variable that has its size."""

    axis: int
    variable: str


@dataclass
class Following:
    """The tensors whose widths variables of the constructor follow, as far as it is written."""

    carried: Mapping[str, CarriedWidth]
    """Tensors that loops rebind, and the variables that have their widths."""
    unfollowed: frozenset[str]
    """Those whose widths no variable follows."""
    touched: set[str] = field(default_factory=set[str])
    """The names that a loop has rebound by now."""
    lost: set[str] = field(default_factory=set[str])
    """Those whose width is not known any more."""


class TorchWriter(BlockWriter, ABC):
    """Writes a class or a function of PyTorch."""

    namespace = "torch"
    renamed: ClassVar = {"logistic": "torch.sigmoid"}

    def __init__(
        self,
        unit: Unit,
        source: SourceFile,
        forms: Forms,
        carried: Mapping[str, CarriedWidth],
        unfollowed: frozenset[str],
    ) -> None:
        super().__init__(unit, source, forms)
        self.is_class = unit.owns
        self.widths: list[ast.Expression] = []
        """The first arguments of the layers so far: the widths of what they gave."""
        self.follow = Following(carried, unfollowed)
        self.base: Unit | None = None
        self.base_text = ""
        self.inherited: frozenset[str] = frozenset()
        """The paths of the parameters and states that the base has."""
        self.made: set[Key] = set()
        self.late: list[Statement] = []
        """Statements that put layers into lists, behind the loops that fill them."""
        self.paths = Modules(self.block, self.instances)

    def attribute(self, name: str) -> str:
        """The attribute that has an argument of the constructor."""
        taken = {key[0] for key in self.paths.kinds if len(key) == 1} | ATTRIBUTES[self._holder(())]
        if self.base is not None:
            taken |= set(self.base.configuration)
        return python_name(name, frozenset(taken))

    def _holder(self, key: Key) -> str:
        """Returns what has the parts of paths below a path: `module`, `list` or `dict`."""
        kind = self.paths.kinds.get(key, "module")
        return kind if kind in ATTRIBUTES else "module"

    def create(
        self, path: ast.Path, value: str, kind: str = "module", then: Iterable[str] = ()
    ) -> None:
        """Makes a layer, parameter or state in the constructor."""
        key = path_key(path)
        for at, name in enumerate(key):
            if name in ATTRIBUTES[self._holder(key[:at])]:
                reason = "each module of PyTorch has an attribute of that name"
                raise refusal(f"`{name}`", reason, path.span)
        create = Create(key, self.steps(path, "init"), value, kind, tuple(then))
        if not self.paths.is_late(key):
            self.init[-1].append(create)
        elif self.loops or len(self.init) > 1:
            raise refusal(
                f"`{'.'.join(key)}`", "it is put into a list that a loop fills", path.span
            )
        else:
            self.late.append(create)
