"""Base of sessions, and the checks that all of them share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf, rebuild
from meganeura_dsl.ir.interpreter import FeedError, storage_type
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.reserved_names import BEGUN
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.backends.session_guard import Closing, Guard, Guarded, SessionError

NOTHING_SHARED = "the two sessions do not keep the same tensors on one device"
"""The message for sessions that cannot share the tensors they keep."""


class Outputs(Mapping[str, Array]):
    """The outputs of a step; reading one waits until it is computed, and gives a copy."""

    @abstractmethod
    def request(self) -> None:
        """Have them brought to the host; read later, they wait for no step but their own."""


class Computed(Outputs):
    """Outputs that are on the host already."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def request(self) -> None:
        """Does nothing, as they are on the host."""

    def __getitem__(self, name: str) -> Array:
        return np.array(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Uploaded(Closing):
    """Inputs of a session that need not be copied again."""


class Session(Guarded):
    """Parameters and states on a device, and the step that uses and updates them.

    Any thread may use it, one at a time: the others wait. Arrays that it is given or gives are the
    caller's, who may write to them; it keeps copies.
    """

    def __init__(
        self,
        persistent: Mapping[str, TensorType],
        inputs: Mapping[str, TensorType],
        guard: Guard | None = None,
    ) -> None:
        """`guard` is that of a session whose memory it uses."""
        self.guard = guard or Guard()
        self._persistent = persistent
        self._inputs = inputs
        self._missing: dict[str, None] = dict.fromkeys(persistent)
        self._caches: tuple[str, ...] = ()
        self._last: Outputs | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters and states."""
        return tuple(self._persistent)

    @property
    def parameters(self) -> Mapping[str, TensorType]:
        """The types of the parameters and states."""
        return self._persistent

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """The types of what a step is fed."""
        return self._inputs

    def own(self, examples: int) -> range:
        """Returns this process's part of so many examples of a step: all, except on several hosts.

        `inputs` has the types of what it feeds.
        """
        return range(examples)

    def memory(self) -> Mapping[str, int] | None:
        """The bytes of a step on a device, by role, where a compiler has said it by now."""
        return None

    def agree(self, *, wish: bool) -> bool:
        """True if any process of a run wishes something; all of them ask after the same step."""
        return wish

    def write(self, name: str, array: Array) -> None:
        """Give a parameter or state its value; raises `FeedError` for another name or type.

        A cache that is given one has begun.
        """
        self._put(name, fitting(name, self._persistent, array))
        self._missing.pop(name, None)
        if name + BEGUN in self._caches:
            self._put(name + BEGUN, np.ones((), np.int32))

    def read(self, name: str) -> Array:
        """The value of a parameter or state after all steps so far, in its shape and type.

        Raises `FeedError` for another name, `SessionError` if it has no value yet.
        """
        known(name, self._persistent)
        if name in self._missing:
            raise SessionError(f"`{name}` has no value yet")
        return self._get(name)

    def load(self, values: Mapping[str, Array]) -> None:
        """Write several parameters and states, as `write` does."""
        for name, array in values.items():
            self.write(name, array)

    def persistent(self) -> dict[str, Array]:
        """Read all parameters and states, as `read` does."""
        return {name: self.read(name) for name in self.names}

    def require_values(self) -> None:
        """Raise `SessionError` unless every parameter and state has a value."""
        if self._missing:
            raise SessionError(f"no value was written for {quoted(self._missing)}")

    def share(self, other: "Session") -> None:
        """Use the parameters, states and caches of another session in place of own ones.

        What either of the two writes or updates, the other reads. Both run on one device and keep
        the same tensors, in the order of `persistent_first`; raises `SessionError` where that is
        not so. This one has not been used yet, and the other one has to stay open as long as it is.
        """
        if other.parameters != self.parameters:
            raise SessionError(NOTHING_SHARED)
        self._share(other.innermost)
        self.guard = other.guard
        self._missing = other._missing  # noqa: SLF001 - what one is given, the other has

    @property
    def innermost(self) -> "Session":
        """The session that runs the steps, if this one delegates them."""
        return self

    def settle(self) -> None:
        """Wait for what may still turn out to be wrong with the steps so far.

        Raises `ProblemError` for indices that were out of range.
        """

    def _share(self, other: "Session") -> None:
        kinds = type(self).__name__, type(other).__name__
        raise SessionError(f"a {kinds[0]} shares nothing with a {kinds[1]}")

    @property
    def caches(self) -> tuple[str, ...]:
        """The tensors that are kept from step to step and in no checkpoint."""
        return self._caches

    def begin(self, caches: Iterable[str]) -> None:
        """Say which of the tensors that are kept are caches, and clear them."""
        self._caches = tuple(caches)
        self.reset()

    def reset(self) -> None:
        """Clear all caches: the next step is the first of a new sequence."""
        if self._caches:
            self._clear(self._caches)
        for name in self._caches:
            self._missing.pop(name, None)

    def _clear(self, names: Sequence[str]) -> None:
        """Make tensors that are kept zeros."""
        for name in names:
            of = self._persistent[name]
            self.write(name, np.zeros(concrete_shape(of.shape), storage_type(of.dtype)))

    def upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        """Put inputs on the device, for `step` to take any number of times; raises as `step`."""
        return self._upload(self._fitting(feeds))

    def stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        """Copy inputs for one step to where the device takes them from.

        Another thread may do so while steps run. Raises as `step`.
        """
        return self._stage(self._fitting(feeds))

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        """Run one step on these inputs; all updates read the values from before it.

        There is one array for each input, in exactly its shape and type, or what `upload` or
        `stage` gave. Raises `FeedError` for other inputs, `SessionError` if a parameter has no
        value, `DeviceError` if the device fails, and `ProblemError` for indices out of range,
        then or once the outputs are read.
        """
        self.require_values()
        inputs = feeds if isinstance(feeds, Uploaded) else self._fitting(feeds)
        self._last = None
        self._last = self._run(inputs)
        return self._last

    def follow(self, feeds: Mapping[str, Array], links: Mapping[str, str]) -> Outputs:
        """Run a step some of whose inputs are outputs of the last one, on the device if it can.

        `links` names the output for each such input, which has its type; `feeds` has the others.
        Raises as `step`.
        """
        last = self.outputs()
        return self.step({**feeds, **{name: last[output] for name, output in links.items()}})

    def _linked(
        self,
        feeds: Mapping[str, Array],
        links: Mapping[str, str],
        outputs: Mapping[str, TensorType],
    ) -> dict[str, Array]:
        """The inputs that are no links, if together they are all; raises as `step`."""
        self.require_values()
        self.outputs()
        for name, output in links.items():
            if known(output, outputs) != known(name, self._inputs):
                raise FeedError(f"`{name}` is {self._inputs[name]}, not {outputs[output]}")
        missing = [name for name in self._inputs if name not in feeds and name not in links]
        if missing:
            raise FeedError(f"no value was fed for {quoted(missing)}")
        return {name: fitting(name, self._inputs, array) for name, array in feeds.items()}

    def run(self, feeds: Mapping[str, Array] | Uploaded) -> None:
        """Run one step whose outputs `outputs` gives."""
        self.step(feeds)

    def outputs(self) -> Outputs:
        """The outputs of the last step; raises `SessionError` if there was none."""
        if self._last is None:
            raise SessionError("no step has run yet")
        return self._last

    @property
    @abstractmethod
    def ahead(self) -> int:
        """The number of steps that may be submitted before the first of them is done."""

    @property
    def is_busy(self) -> bool:
        """True if a step that was submitted is not done yet; never waits.

        A session that has made a step when the call returns is never busy between calls.
        """
        return False

    @property
    @abstractmethod
    def kernels(self) -> int:
        """The number of kernels that opening the session began to compile."""

    @abstractmethod
    def ready(self) -> None:
        """Wait until they are compiled."""

    @abstractmethod
    def wait(self) -> None:
        """Return once all steps are done."""

    @abstractmethod
    def _put(self, name: str, array: Array) -> None: ...

    @abstractmethod
    def _get(self, name: str) -> Array: ...

    @abstractmethod
    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded: ...

    @abstractmethod
    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded: ...

    @abstractmethod
    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs: ...

    def _fitting(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The inputs, of which none is missing and each has its type."""
        missing = [name for name in self._inputs if name not in feeds]
        if missing:
            raise FeedError(f"no value was fed for {quoted(missing)}")
        return {name: fitting(name, self._inputs, array) for name, array in feeds.items()}


OpenSession = Callable[[Graph], Session]
"""Plans a graph and puts it on a device."""


def leaf_types(graph: Graph) -> tuple[dict[str, TensorType], dict[str, TensorType]]:
    """The types of what a graph keeps, and of what it is fed, by name."""
    persistent: dict[str, TensorType] = {}
    inputs: dict[str, TensorType] = {}
    for value in graph.values:
        if isinstance(value.op, Leaf):
            leaves = inputs if isinstance(value.op, Input) else persistent
            leaves[value.op.name] = value.type
    return persistent, inputs


def caches_of(graph: Graph) -> tuple[str, ...]:
    """The names of the caches among the leaves of a graph."""
    leaves = (value.op for value in graph.values)
    return tuple(op.name for op in leaves if isinstance(op, Parameter) and op.kind == "cache")


def persistent_first(graph: Graph) -> Graph:
    """The graph with what it keeps first, by name.

    So graphs that keep the same have it in the same places, and their sessions can share it.
    """
    build = Builder()
    leaves = (value.op for value in graph.values)
    for leaf in sorted((op for op in leaves if isinstance(op, Parameter)), key=lambda op: op.name):
        build.add(leaf)
    return rebuild(graph, build, lambda value, operands: build.reapply(value, *operands))


def known(name: str, wanted: Mapping[str, TensorType]) -> TensorType:
    """The type of a name; `FeedError` with the nearest one where there is none."""
    if name not in wanted:
        nearest = get_close_matches(name, wanted, n=1)
        hint = f"; did you mean {quoted(nearest)}?" if nearest else ""
        raise FeedError(f"there is no `{name}`{hint}")
    return wanted[name]


def fitting(name: str, wanted: Mapping[str, TensorType], array: Array) -> Array:
    """The array, if it has exactly the type that is wanted under its name."""
    expected = known(name, wanted)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise FeedError(f"`{name}` is a masked array: fill it (`array.filled(0)`)")
    if array.shape != expected.shape or array.dtype != storage_type(expected.dtype):
        found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        raise FeedError(f"`{name}` is {expected}, not {found}")
    return array


def foreign() -> SessionError:
    """Returns the error for inputs on another device, or in another plan's order."""
    return SessionError("these inputs are those of another session, or were given back")
