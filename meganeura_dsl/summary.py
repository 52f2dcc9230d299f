"""The layers of a model as a table: what each gives, its weights, arithmetic and memory."""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from meganeura_dsl.diagnostics.plain_table import count, table
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Leaf
from meganeura_dsl.ir.ops import Broadcast, Constant, Gather, Reshape, Slice, Transpose
from meganeura_dsl.ir.types import element_count, free_sizes, size_in_bytes

_CALL = re.compile(r"(?<!^\.):\s*(?P<callee>\w+)")
"""A layer; the label `.` is none, as it adds nothing to the names of what is inside."""
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_VIEW = Leaf | Constant | Broadcast | Reshape | Slice | Transpose
"""Values that compute nothing of their own."""
HEAD = ("layer", "block", "output", "weights", "FLOPs", "memory")
STATE = "state"
"""The kind of a tensor of a checkpoint that nothing trains and every step may change."""


@dataclass(eq=False)
class Layer:
    """A layer that a label names, with those inside it; the root is the model."""

    path: str
    kind: str
    """The block that is applied."""
    output: str
    """Its type, for all sizes."""
    weights: int = 0
    """Numbers of all its parameters, without states."""
    flops: int | None = None
    """Additions and multiplications, about; `None` where a size is open."""
    memory: int | None = None
    """Bytes of all values that it computes, as it is written; `None` where a size is open."""
    inside: "list[Layer]" = field(default_factory=list["Layer"])
    times: int = 1
    """The number of equal layers in a row; numbers are those of one."""
    paths: str = ""
    """The joined paths of the layers, `h.[0-11]`."""


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """The layers of a model, and its checkpoint. Its text is a table."""

    root: Layer
    trained: int
    """Numbers in parameters that training moves."""
    weight_bytes: int
    """Bytes of the checkpoint in memory, states included."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The numbers that the arithmetic is for."""
    open_sizes: tuple[str, ...] = ()
    """Sizes without a number; where there are some, nothing is known of the arithmetic."""

    def __repr__(self) -> str:
        return self.text()

    def text(self, depth: int | None = None, option: str = "") -> str:
        """Returns the table and what follows of it.

        `depth` is how deep layers are shown; `option` is what a size is given by, `--set `.
        """
        rows = [HEAD, *_rows(self.root, 0, depth)]
        root = self.root
        frozen = root.weights - self.trained
        of_frozen = f", {frozen:,} of them frozen" if frozen else ""
        memory = _short(self.weight_bytes)
        held = f"{count(root.weights, 'weight')}{of_frozen}; {memory}B in memory, states included"
        return "\n".join([table(rows, right=(3, 4, 5)), "", held, self._arithmetic(option)])

    def _arithmetic(self, option: str) -> str:
        if self.root.flops is None:
            given = " ".join(f"{option}{name}=NUMBER" for name in self.open_sizes)
            return f"FLOPs and memory follow from numbers: {given}"
        shown = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        for_ = f" for {shown}" if shown else ""
        assert self.root.memory is not None
        return (
            f"{_short(self.root.flops).rstrip()} FLOPs{for_}: additions and multiplications\n"
            f"{_short(self.root.memory)}B of values are computed by the program as it is written"
        )


def summarize(
    name: str, elaborate: Callable[[Mapping[str, int]], Elaboration], sizes: Mapping[str, int]
) -> Summary:
    """Returns the layers of a model, of which `elaborate` gives the graph for some sizes.

    The number of examples is 1 where `sizes` does not say it. Other sizes have no number of their
    own: while one is open nothing is known of the arithmetic.
    """
    symbolic = elaborate(sizes)
    missing = free_sizes(symbolic.inputs.values())
    firsts = {str(each.shape[0]) for each in symbolic.inputs.values() if each.shape}
    known = {**sizes, **{each: 1 for each in missing if each in firsts}}
    open_sizes = tuple(each for each in missing if each not in firsts)
    concrete = None if open_sizes else elaborate(known)
    return replace(summary_of(name, symbolic, concrete), sizes=known, open_sizes=open_sizes)


def summary_of(name: str, symbolic: Elaboration, concrete: Elaboration | None) -> Summary:
    """Returns the layers of a model with sizes as symbols; `concrete` has numbers for all of them.

    Without `concrete` nothing is known of the arithmetic. Of layers that are applied several times
    the first application is shown.
    """
    outputs = ", ".join(str(each.type) for each in symbolic.graph.outputs.values())
    root = Layer("", name, outputs)
    known = {"": root}
    paths = dict.fromkeys(value.origin.path for value in symbolic.graph.values)
    for each in symbolic.bindings:
        call = _CALL.search(each.span.text)
        path = None if call is None else _next_path(_path(each.path, each.name), paths, known)
        if call is not None and path is not None:
            known[path] = Layer(path, call["callee"], str(each.type))
    for path in [*known]:
        for outer in _numbered_parts(path):
            known.setdefault(outer, Layer(outer, "", known[path].output))
    for path, layer in known.items():
        if path:
            _above(path, known).inside.append(layer)
    order = {path: at for at, path in enumerate(paths)}
    _sort(root, order)
    _count(known, symbolic, concrete)
    _fold(root)
    parameters = [each for each in symbolic.parameters if each.kind == "param"]
    return Summary(
        root,
        sum(element_count(each.type) for each in parameters),
        sum(size_in_bytes(each.type) for each in symbolic.parameters),
    )


def _path(above: str, label: str) -> str:
    """Returns the path of a label as it is written: `h.[i]` for `h[i]`."""
    return f"{above}.{label.replace('[', '.[')}".strip(".").replace("..", ".")


def _next_path(label: str, paths: Iterable[str], known: Container[str]) -> str | None:
    """Returns the path of a layer that comes for the first time; in a loop, its iteration's."""
    label = re.sub(r"\[(\d+)\]", r"\1", label)
    if "[" not in label and "{" not in label:
        return None if label in known else label
    parts = [r"\d+" if each.startswith("[") else _form(each) for each in label.split(".")]
    form = re.compile("(" + r"\.".join(parts) + r")(?:\.|$)")
    found = (match[1] for match in map(form.match, paths) if match is not None)
    return next((each for each in found if each not in known), None)


def _form(part: str) -> str:
    """Returns the form of a part of a path: of `layer{i+1}` the letters and a value."""
    return r"\w+".join(map(re.escape, re.split(r"\{[^}]*\}", part)))


def _numbered_parts(path: str) -> Iterator[str]:
    """Returns the paths around a path that end in a number: `h.0` of `h.0.norm`."""
    parts = path.split(".")
    for end in range(1, len(parts)):
        if parts[end - 1].isdecimal():
            yield ".".join(parts[:end])


def _sort(layer: Layer, order: Mapping[str, int]) -> None:
    """Put layers in the order in which something of them is computed first."""

    def first(each: Layer) -> int:
        begins = f"{each.path}."
        found = (at for path, at in order.items() if f"{path}.".startswith(begins))
        return min(found, default=len(order))

    layer.inside.sort(key=first)
    for each in layer.inside:
        _sort(each, order)
        if not each.kind:
            each.output = each.inside[-1].output


def _above(path: str, known: Mapping[str, Layer]) -> Layer:
    """Returns the layer around a path: the longest part of it that is a layer."""
    while path:
        path = path.rpartition(".")[0]
        if path in known:
            return known[path]
    return known[""]


def _count(known: Mapping[str, Layer], symbolic: Elaboration, concrete: Elaboration | None) -> None:
    """Add up what is inside of each layer."""
    weights, flops = defaultdict[str, int](int), defaultdict[str, int](int)
    memory = defaultdict[str, int](int)
    for each in symbolic.parameters:
        if each.kind != STATE:
            weights[each.name.rpartition(".")[0]] += element_count(each.type)
    for value in () if concrete is None else concrete.graph.values:
        if not isinstance(value.op, Leaf | Gather):  # a row that is looked up is no arithmetic
            types = [operand.type for operand in value.operands]
            flops[value.origin.path] += value.op.flops(types, value.type)
        if not isinstance(value.op, _VIEW):
            memory[value.origin.path] += size_in_bytes(value.type)
    for path, number in weights.items():
        for layer in _around(path, known):
            layer.weights += number
    if concrete is None:
        return
    for layer in known.values():
        layer.flops = layer.memory = 0
    for path in {**flops, **memory}:
        for layer in _around(path, known):
            layer.flops = (layer.flops or 0) + flops[path]
            layer.memory = (layer.memory or 0) + memory[path]


def _around(path: str, known: Mapping[str, Layer]) -> Sequence[Layer]:
    """Returns the layer of a path and all around it."""
    found = [known[path]] if path in known and path else []
    while path:
        above = _above(path, known)
        found.append(above)
        path = above.path
    return found or [known[""]]


def _fold(layer: Layer) -> None:
    """Let one of several equal layers in a row, which differ by a number, stand for all."""
    for each in layer.inside:
        _fold(each)
    kept: list[Layer] = []
    for each in layer.inside:
        if kept and _is_like(kept[-1], each, kept[-1].times):
            kept[-1].times += 1
            kept[-1].paths = _together(kept[-1], each)
        else:
            each.paths = each.path
            kept.append(each)
    layer.inside = kept


def _is_like(first: Layer, next_: Layer, distance: int) -> bool:
    """Returns True if a layer is the next of a row of equal ones."""
    return _moved(first.path, next_.path) == distance and _shape(first) == _shape(next_)


def _moved(first: str, second: str) -> int | None:
    """Returns by how much the one number differs in which two paths differ."""
    if _NUMBER.sub("#", first) != _NUMBER.sub("#", second):
        return None
    pairs = zip(_NUMBER.findall(first), _NUMBER.findall(second), strict=True)
    moved = [int(after) - int(before) for before, after in pairs if before != after]
    return moved[0] if len(moved) == 1 else None


def _together(first: Layer, last: Layer) -> str:
    """Returns `h.[0-11]` for `h.0` and `h.11`."""
    parts = zip(first.path.split("."), last.path.split("."), strict=True)
    return ".".join(one if one == other else f"[{one}-{other}]" for one, other in parts)


def _shape(layer: Layer) -> tuple[object, ...]:
    """Returns what two layers that are folded have in common.

    Not their arithmetic: the first has what all of them read, such as the numbers of positions.
    """
    inside = tuple(
        (each.path[len(layer.path) :], each.times, *_shape(each)) for each in layer.inside
    )
    return layer.kind, layer.output, layer.weights, inside


def _rows(layer: Layer, level: int, depth: int | None) -> Iterator[tuple[str, ...]]:
    times = f"{layer.times} x " if layer.times > 1 else ""
    name = layer.paths or layer.path
    yield (
        f"{'  ' * level}{name or layer.kind}",
        layer.kind if layer.path else "",
        layer.output,
        f"{times}{layer.weights:,}" if layer.weights else "",
        f"{times}{_short(layer.flops)}" if layer.flops is not None else "-",
        f"{times}{_short(layer.memory)}B" if layer.memory is not None else "-",
    )
    if depth is None or level < depth:
        for each in layer.inside:
            yield from _rows(each, level + 1, depth)


def _short(number: int) -> str:
    """Returns a number with three digits and a unit: `1.82 G`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} "
