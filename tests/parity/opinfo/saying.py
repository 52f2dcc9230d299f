"""Translation of PyTorch's samples: an expression over the sample's tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import torch

NAMES = ("x", "y", "z", "u", "v", "w", "r", "s", "t")
AXES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
TYPES = {
    torch.float64: "",
    torch.float32: "",
    torch.int64: "i32",
    torch.int32: "i32",
    torch.bool: "bool",
}


class NotSaidError(Exception):
    """The language has no form for a sample; its text is the reason, by which it is counted."""


@dataclass(frozen=True)
class Said:
    """The body of a block, and the tensors that it is given."""

    text: str
    """An expression, or a body, which begins with a line break."""
    fed: Mapping[str, torch.Tensor]
    """The inputs by name."""
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    """Parameters and states by name."""
    training: bool = False
    updates: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    """States afterwards: tensors that PyTorch overwrites."""
    imports: str = ""
    """Lines before the block."""
    call: Callable[[], Any] | None = None
    """PyTorch's result, where its operands are made of what is fed."""

    def source(self) -> str:
        """The program."""
        inputs = ", ".join(f"{name}: {_type(each)}" for name, each in self.fed.items())
        for each in self.weights.values():
            _type(each)
        is_body = self.text.startswith("\n")
        opened = ":" if is_body else " = "
        block = f"block Sample()({inputs}){opened}{self.text}\n"
        return f"{self.imports}{block}model sample = Sample()\n"


@dataclass(frozen=True)
class Given:
    """A sample's tensors under names of inputs, and its other arguments under those of PyTorch."""

    sample: Any
    names: tuple[str, ...]

    @property
    def x(self) -> torch.Tensor:
        """The first tensor."""
        if not isinstance(self.sample.input, torch.Tensor):
            raise NotSaidError("the first operand is no tensor")
        return self.sample.input

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of any kind
        return self.get(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
        """An argument, by place or by name."""
        place = self.names.index(name)
        if place < len(self.sample.args):
            return self.sample.args[place]
        return self.sample.kwargs.get(name, default)

    def has(self, name: str) -> bool:
        """True if an argument was given."""
        return self.names.index(name) < len(self.sample.args) or name in self.sample.kwargs

    def demand(self, name: str, allowed: Sequence[object], reason: str) -> None:
        """Refuse an argument that the language has no form for."""
        if self.has(name) and not any(
            type(each) is type(self[name]) and each == self[name] for each in allowed
        ):
            raise NotSaidError(reason)

    def end(self) -> None:
        """Refuse arguments that nobody has read."""
        left = self.sample.kwargs.keys() - set(self.names)
        if left:
            raise NotSaidError(f"argument {', '.join(sorted(left))}")
        if len(self.sample.args) > len(self.names):
            raise NotSaidError("more arguments")


Say = Callable[[Any], Said]


@dataclass(frozen=True)
class Row:
    """A function of the language and its counterpart."""

    ours: str
    theirs: str
    """The name of the OpInfo, with its variant behind a slash."""
    say: Say
    pick: Callable[[Any], Sequence[torch.Tensor]] | None = None
    """Selects those of PyTorch's results that are compared."""
    dtypes: tuple[torch.dtype, ...] = (torch.float64,)
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Codes of messages that samples may get, and why."""
    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parts of PyTorch's messages about samples that the language accepts, and the reason."""
    close: float = 1e-9
    slopes: bool = True
    apart: str = ""
    """The reason why gradients are not compared."""

    def __str__(self) -> str:
        return f"{self.ours} {self.theirs}"


def given(sample: Any, names: str = "") -> Given:  # noqa: ANN401 - of PyTorch's class
    """The sample, where arguments have these names in this order."""
    found = Given(sample, tuple(names.split()))
    found.end()
    return found


def number(value: object) -> str:
    """A number as it is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})" if value < 0 else str(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise NotSaidError("a number that is infinite or NaN")
        return f"({value!r})" if value < 0 else repr(value)
    raise NotSaidError(f"an argument of type {type(value).__name__}")


def whole(value: object) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotSaidError(f"a whole number of type {type(value).__name__}")
    return value


def wholes(value: object, count: int = 0) -> list[int]:
    """Whole numbers; a single one `count` times."""
    if isinstance(value, int):
        return [whole(value)] * (count or 1)
    if not isinstance(value, tuple | list | torch.Size):
        raise NotSaidError(f"a whole number of type {type(value).__name__}")
    return [whole(each) for each in value]


def listed(values: Sequence[int]) -> str:
    """A list as it is written."""
    return f"[{', '.join(map(str, values))}]"


def axes_of(rank: int) -> str:
    """A pattern with a name for each axis."""
    return f"[{', '.join(AXES[:rank])}]"


def flat(text: str, rank: int) -> str:
    """All elements in one axis."""
    if rank == 0:
        return f"insert_axis({text}, 0, 1)"
    return f"rearrange({text}, {axes_of(rank)} -> [{' * '.join(AXES[:rank])}])"


def unflat(text: str, shape: Sequence[int]) -> str:
    """One axis, split."""
    if not shape:
        return f"{text}[0]"
    return f"rearrange({text}, [{' * '.join(map(str, shape))}] -> {listed(shape)})"


def permuted(text: str, order: Sequence[int]) -> str:
    """Axes in another order."""
    right = ", ".join(AXES[each] for each in order)
    return f"rearrange({text}, {axes_of(len(order))} -> [{right}])"


def kept(text: str, axes: Sequence[int]) -> str:
    """Axes of size 1 where others were."""
    for axis in sorted(axes):
        text = f"insert_axis({text}, {axis}, 1)"
    return text


def tensors(*values: object) -> tuple[list[str], dict[str, torch.Tensor]]:
    """Operands as they are written, and those which are fed."""
    written: list[str] = []
    fed: dict[str, torch.Tensor] = {}
    for name, value in zip(NAMES, values, strict=False):
        if isinstance(value, torch.Tensor):
            written.append(name)
            fed[name] = value
        else:
            written.append(number(value))
    if not fed:
        raise NotSaidError("no operand is a tensor")
    return written, fed


def _type(tensor: torch.Tensor) -> str:
    if tensor.dtype not in TYPES:
        raise NotSaidError(f"elements of type {str(tensor.dtype).removeprefix('torch.')}")
    return f"{TYPES[tensor.dtype]}[{', '.join(map(str, tensor.shape))}]"
