"""The reference interpreter: what a graph means, in NumPy, and how it runs without a GPU.

In single precision every value is stored in its own element type, and f16 is computed in float32.
In double precision all floats are float64: the oracle that gradients are measured against.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from time import perf_counter

import numpy as np

from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.ir.graph import Array, Graph, Leaf, Op, Value, by_application
from meganeura_dsl.ir.ops import (
    Cast,
    Constant,
    DynamicSlice,
    DynamicUpdate,
    Iota,
    Parameter,
    StopGradient,
)
from meganeura_dsl.ir.ops.primitive.dynamic import part_of
from meganeura_dsl.ir.ops.primitive.loop import CARRY, COLLECTED, ITERATION, Loop
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Dim


class Precision(Enum):
    """The floats that f32 and f16 values are kept in."""

    SINGLE = "single"
    DOUBLE = "double"


class FeedError(ValueError):
    """Arrays do not fit the inputs and parameters of the graph."""


@dataclass(frozen=True)
class Results:
    """The results of a run: outputs, and the next values of parameters and states."""

    outputs: Mapping[str, Array]
    updates: Mapping[str, Array]


Watch = Callable[[tuple[Value, ...], float, float], None]
"""Called with the results of an op, and when it began and ended, by the clock `perf_counter`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The memory in which a result of an op is stored, and its type."""

    value: Value
    slot: int
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class Instruction:
    """One op to run: where its operands lie, where its results go, what nobody reads any more."""

    op: Op
    evaluate: Callable[..., Sequence[Array]]
    """The function that computes the results from the operands."""
    operands: tuple[int, ...]
    halves: tuple[int, ...]
    """The operands that are kept in half precision, in which nothing is computed."""
    results: tuple[Stored, ...]
    """The results that the graph uses."""
    dead: tuple[int, ...]


def storage_type(dtype: DType, precision: Precision = Precision.SINGLE) -> np.dtype[np.generic]:
    """The NumPy type that values of an element type are stored in."""
    if dtype.is_float and precision is Precision.DOUBLE:
        return np.dtype(np.float64)
    return np.dtype(_STORAGE[dtype])


_STORAGE: Mapping[DType, type[np.generic]] = {
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.I32: np.int32,
    DType.U32: np.uint32,
    DType.BOOL: np.bool_,
}


def evaluate(
    graph: Graph, feeds: Mapping[str, Array], precision: Precision = Precision.SINGLE
) -> Results:
    """Returns the results of the graph for these inputs and parameters."""
    return Interpreter(graph, precision).run(feeds)


class Interpreter:
    """A graph ready to run again and again; the order and the lifetimes are found once."""

    def __init__(
        self, graph: Graph, precision: Precision = Precision.SINGLE, *, in_place: bool = False
    ) -> None:
        """Plans the ops; `in_place` lets arrays that are fed for caches be changed."""
        _require_concrete(graph.values)
        self._in_place = in_place_updates(graph) if in_place else frozenset[int]()
        self.leaves = {value.op.name: value for value in graph.values if isinstance(value.op, Leaf)}
        self._precision = precision
        self._dtypes = {dtype: storage_type(dtype, precision) for dtype in DType}
        self._slots = {value.id: slot for slot, value in enumerate(graph.values)}
        self._outputs = {name: self._slots[value.id] for name, value in graph.outputs.items()}
        self._updates = {name: self._slots[value.id] for name, value in graph.updates.items()}
        self._start: list[Array | None] = [None] * len(graph.values)
        for value in graph.values:
            if isinstance(value.op, Constant | Iota):
                with np.errstate(over="ignore"):  # a number beyond f16 is an infinity
                    constant = value.op.evaluate().astype(self._dtypes[value.type.dtype])
                constant.flags.writeable = False  # a result may be one, or a view of it
                self._start[self._slots[value.id]] = constant
        self._steps = self._schedule([value for value in graph.values if value.operands])
        self._dependents: dict[frozenset[str], tuple[Instruction, ...]] = {}

    def _schedule(self, values: list[Value]) -> tuple[Instruction, ...]:
        kept = {*self._outputs.values(), *self._updates.values()}
        steps: list[Instruction] = []
        for results in reversed(by_application(values)):
            value = results[0]
            operands = tuple(self._slots[operand.id] for operand in value.operands)
            dead = tuple(sorted(set(operands) - kept))
            kept.update(dead)
            stored = tuple(map(self._stored, results))
            evaluate = (
                replaced_in_place
                if value.id in self._in_place
                else evaluation(value.op, self._precision)
            )
            steps.append(
                Instruction(value.op, evaluate, operands, self._halves(value), stored, dead)
            )
        return tuple(reversed(steps))

    def _stored(self, value: Value) -> Stored:
        return Stored(value, self._slots[value.id], self._dtypes[value.type.dtype])

    def _halves(self, value: Value) -> tuple[int, ...]:
        if self._precision is Precision.DOUBLE:
            return ()
        dtypes = [each.type.dtype for each in value.operands]
        return tuple(index for index, dtype in enumerate(dtypes) if dtype is DType.F16)

    def run(self, feeds: Mapping[str, Array], watch: Watch | None = None) -> Results:
        """One evaluation. The feeds are inputs and parameters by name, and nothing else."""
        values = self._given(feeds)
        # Infinities and NaN are values like others, here as on a GPU.
        with np.errstate(all="ignore"):
            for step in self._steps:
                start = perf_counter()
                _advance(step, values)
                if watch is not None:
                    results = tuple(result.value for result in step.results)
                    watch(results, start, perf_counter())
        return Results(_named(self._outputs, values), _named(self._updates, values))

    def run_iteration(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Some outputs of one evaluation of a body, whose feeds are of the types they should be."""
        values = self._start.copy()
        for name, array in feeds.items():
            values[self._slots[self.leaves[name].id]] = array
        for step in self._steps:
            _advance(step, values)
        found = (values[self._outputs[name]] for name in outputs)
        return [array for array in found if array is not None]

    def every_value(self, feeds: Mapping[str, Array]) -> tuple[Array | None, ...]:
        """All values of one evaluation, for `perturbed` to start from."""
        values = self._given(feeds)
        with np.errstate(all="ignore"):
            for step in self._steps:
                _compute(step, values)
        return tuple(values)

    def perturbed(
        self, values: Sequence[Array | None], changed: Mapping[str, Array]
    ) -> dict[str, Array]:
        """The outputs where some leaves differ from those of `values`.

        What `StopGradient` gives stays as it is. Only what depends on the leaves is computed.
        """
        found = list(values)
        for name, array in changed.items():
            found[self._slots[self.leaves[name].id]] = self._fitting(name, array)
        with np.errstate(all="ignore"):
            for step in self._dependent(frozenset(changed)):
                _compute(step, found)
        return _named(self._outputs, found)

    def _dependent(self, names: frozenset[str]) -> tuple[Instruction, ...]:
        """The steps on paths from some leaves to the outputs, without `StopGradient`."""
        if names not in self._dependents:
            slots = {self._slots[self.leaves[name].id] for name in names}
            steps = _downstream(self._steps, slots)
            self._dependents[names] = _upstream(steps, set(self._outputs.values()))
        return self._dependents[names]

    def find(self, feeds: Mapping[str, Array], is_sought: Callable[[Array], bool]) -> Value | None:
        """The first value that is sought, in the order of computation: first what is fed."""
        values = self._given(feeds)
        for name, leaf in self.leaves.items():
            if is_sought(feeds[name]):
                return leaf
        with np.errstate(all="ignore"):
            for step in self._steps:
                _advance(step, values)
                for result in step.results:
                    if is_sought(np.asarray(values[result.slot])):
                        return result.value
        return None

    def _given(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """The values before the first step."""
        values = self._start.copy()
        for name, array in self._checked(feeds).items():
            values[self._slots[self.leaves[name].id]] = array
        return values

    def _checked(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        missing = [name for name in self.leaves if name not in feeds]
        if missing:
            raise FeedError(f"no value was fed for {quoted(missing)}")
        unknown = [name for name in feeds if name not in self.leaves]
        if unknown:
            raise FeedError(f"the graph does not read {quoted(unknown)}{self._hint(unknown[0])}")
        return {name: self._fitting(name, array) for name, array in feeds.items()}

    def _hint(self, name: str) -> str:
        nearest = get_close_matches(name, self.leaves, n=1)
        return f"; it has {quoted(nearest)}" if nearest else ""

    def _fitting(self, name: str, array: Array) -> Array:
        wanted = self.leaves[name].type
        dtype = self._dtypes[wanted.dtype]
        widened = self._precision is Precision.DOUBLE and np.issubdtype(array.dtype, np.floating)
        fits = array.dtype == dtype or (widened and wanted.dtype.is_float)
        if array.shape != wanted.shape or not fits:
            found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise FeedError(f"`{name}` is {wanted}, but {found} was fed")
        return array.astype(dtype, copy=False)


def in_place_updates(graph: Graph) -> frozenset[int]:
    """Ids of the updates that may overwrite a part of what they update, where it lies.

    Nobody reads the old value later, nor does the part that is written: a dead value's memory is
    its successor's. Whoever reads a view reads what it is a view of.
    """
    held = _held(graph)
    last = {each: value for value in graph.values for by in value.operands for each in held[by.id]}
    given = frozenset[int]().union(*(held[value.id] for value in graph.outputs.values()))
    updates = Counter(each for value in graph.updates.values() for each in held[value.id])
    return frozenset(
        value.id
        for name, value in graph.updates.items()
        if isinstance(value.op, DynamicUpdate)
        and isinstance(leaf := value.operands[0].op, Parameter)
        and (leaf.name, leaf.kind) == (name, "cache")
        and last[value.operands[0].id] is value
        and given.isdisjoint((value.operands[0].id, value.id))
        and (updates[value.operands[0].id], updates[value.id]) == (0, 1)
    )


def _held(graph: Graph) -> dict[int, frozenset[int]]:
    """Returns for each value the ids of values that may own its array's memory."""
    held: dict[int, frozenset[int]] = {}
    for value in graph.values:
        sources: tuple[Value, ...] = ()
        if Trait.VIEW in value.op.traits or isinstance(value.op, Cast | DynamicSlice):
            sources = value.operands[:1]
        elif isinstance(value.op, Loop):  # a carry may be given back as it came
            sources = value.operands
        held[value.id] = frozenset({value.id}).union(*(held[each.id] for each in sources))
    return held


def replaced_in_place(x: Array, part: Array, *starts: Array) -> Sequence[Array]:
    """`DynamicUpdate` on an array that nobody else reads."""
    x[part_of(x, starts, part.shape)] = part
    return (x,)


def evaluation(op: Op, precision: Precision = Precision.SINGLE) -> Callable[..., Sequence[Array]]:
    """Returns a function that computes the results of an op in NumPy from its operands."""
    return Iterations(op, precision).run if isinstance(op, Loop) else op.evaluate_all


class Iterations:
    """A loop ready to run: its body as an interpreter, made once."""

    def __init__(self, op: Loop, precision: Precision) -> None:
        self._op = op
        self._body = Interpreter(op.body.graph, precision)
        self._iterations = concrete(op.iterations)
        self._carries = [f"{CARRY}{number}" for number in range(op.carried)]
        self._outputs = [*self._carries, *(f"{COLLECTED}{n}" for n in range(len(op.collected)))]

    def run(self, *operands: Array) -> list[Array]:
        """The carries behind the last iteration, then what was collected."""
        op, count = self._op, self._op.carried
        feeds = dict(zip(op.names, operands, strict=True))
        sliced = op.names[count : count + len(op.sliced)]
        stacks = {
            name: np.moveaxis(feeds[name], axis, 0)
            for name, axis in zip(sliced, op.sliced, strict=True)
        }
        results: list[Array] = []
        for iteration_number in range(self._iterations)[:: -1 if op.backward else 1]:
            feeds[ITERATION] = np.asarray(iteration_number, np.int32)
            feeds.update((name, stack[iteration_number]) for name, stack in stacks.items())
            found = self._body.run_iteration(feeds, self._outputs)
            feeds.update(zip(self._carries, found, strict=False))
            results = results or list(map(self._stack, found[count:], op.collected))
            for result, axis, given in zip(results, op.collected, found[count:], strict=True):
                np.moveaxis(result, axis, 0)[iteration_number] = given
            if op.stops and not found[count - 1]:
                break
        return [*(feeds[name] for name in self._carries), *results]

    def _stack(self, given: Array, axis: int) -> Array:
        shape = given.shape[:axis], given.shape[axis:]
        of = (*shape[0], self._iterations, *shape[1])
        # What an iteration that is not run collects is zero.
        return np.zeros(of, given.dtype) if self._op.stops else np.empty(of, given.dtype)


def _downstream(steps: Iterable[Instruction], changed: set[int]) -> list[Instruction]:
    """The steps that read one of the slots, or what such a step gives."""
    found: list[Instruction] = []
    for step in steps:
        if not isinstance(step.op, StopGradient) and not changed.isdisjoint(step.operands):
            changed.update(result.slot for result in step.results)
            found.append(step)
    return found


def _upstream(steps: Sequence[Instruction], needed: set[int]) -> tuple[Instruction, ...]:
    """The steps that give one of the slots, or what such a step reads."""
    found: list[Instruction] = []
    for step in reversed(steps):
        if any(result.slot in needed for result in step.results):
            needed.update(step.operands)
            found.append(step)
    return tuple(reversed(found))


def _advance(step: Instruction, values: list[Array | None]) -> None:
    """Compute the results of one op, and forget what nobody reads any more."""
    _compute(step, values)
    for slot in step.dead:
        values[slot] = None


def _compute(step: Instruction, values: list[Array | None]) -> None:
    """Compute the results of one op, and put them into their slots."""
    operands = [values[slot] for slot in step.operands]
    for index in step.halves:
        operands[index] = np.asarray(operands[index], np.float32)
    try:
        found = step.evaluate(*operands)
        for result in step.results:
            values[result.slot] = np.asarray(found[result.value.index], result.dtype)
    except (IndexError, MemoryError) as error:
        error.add_note(f"in {_location(step.results[0].value)}")
        raise


def _named(slots: Mapping[str, int], values: list[Array | None]) -> dict[str, Array]:
    found = {name: values[slot] for name, slot in slots.items()}
    return {
        name: np.asarray(array, order="C") for name, array in found.items() if array is not None
    }


def _location(value: Value) -> str:
    origin = value.origin
    where = f" of `{origin.path}`" if origin.path else ""
    line = f" ({origin.location})" if origin.span else ""
    return f"the `{type(value.op).__name__}`{where}{line}"


def _require_concrete(values: Iterable[Value]) -> None:
    free = {name for value in values for name in _variables(value.type)}
    if free:
        raise ValueError(f"the graph still depends on the sizes {quoted(sorted(free))}")


def _variables(of: TensorType) -> set[str]:
    sizes = [size.variables() for size in of.shape if isinstance(size, Dim)]
    return set[str]().union(*sizes)
