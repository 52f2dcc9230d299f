"""Session of a step compiled by XLA: arrays stay on the devices, and a step is one call."""

from collections import deque
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.stages import Compiled

from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends.base import (
    NOTHING_SHARED,
    Outputs,
    Session,
    SessionError,
    Uploaded,
    foreign,
    leaf_types,
)
from meganeura_runtime.backends.errors import OutOfMemoryError
from meganeura_runtime.backends.memory_estimate import MemoryExceededError
from meganeura_runtime.backends.session_guard import Guard
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.config.measured_choices import EAGER_OUTPUTS
from meganeura_runtime.backends.xla.device.failures import explained
from meganeura_runtime.backends.xla.device.transfers import (
    in_rows,
    local_type,
    on_host,
    placed_parts,
    placed_whole,
)
from meganeura_runtime.backends.xla.step import ArrayKey
from meganeura_runtime.backends.xla.step_memory import memory_by_role, step_memory
from meganeura_runtime.support.background import begin

AHEAD = 3
"""Steps that may be queued on a device before the first of them is done.

That many keep it busy, and only their inputs have to be held.
"""

DeviceArrays = dict[str, jax.Array]


class XlaSession(Session):
    """Parameters and states on the devices; the next values take the memory of the last ones."""

    def __init__(self, program: Program) -> None:
        persistent, fed = leaf_types(program.graph)
        super().__init__(
            persistent, {name: local_type(each, program.fed[name]) for name, each in fed.items()}
        )
        self.program = program
        self._arrays: DeviceArrays = {}
        """Parameters and states; sessions that share them have one dictionary."""
        updated = program.graph.updates.keys() - program.counters.keys()
        copies = (ArrayKey(name, is_copy=True) for name in program.copies)
        # JAX sorts the keys in every step, which is quick for keys in order.
        keys = sorted([*map(ArrayKey, persistent), *copies])
        self._updated = [key for key in keys if key.name in updated]
        self._constant = [key for key in keys if key.name not in updated]
        self._counted: dict[str, int] = {}
        """Pending increments of states; sessions that share arrays have one dictionary."""
        self._copies: dict[str, tuple[jax.Array, jax.Array]] = {}
        """The array that was copied, and its copy in bfloat16, by parameter."""
        self._running: deque[list[jax.Array]] = deque()
        self._compiling = begin("compile", program.compiled)

    @property
    def ahead(self) -> int:
        """Returns the number of steps that keep the device busy."""
        return AHEAD

    @property
    def is_busy(self) -> bool:
        """True until the last step is done."""
        return bool(self._running) and not all(each.is_ready() for each in self._running[-1])

    @property
    def kernels(self) -> int:
        """Returns 1: a step is one program."""
        return 1

    @property
    def compiled(self) -> Compiled:
        """Returns the step once it is compiled; raises `DeviceError`."""
        return self._compiling.result()

    def own(self, examples: int) -> range:
        """Returns the examples that the devices of this process hold."""
        return self.program.placement.own(examples)

    def memory(self) -> Mapping[str, int] | None:
        """Returns the compiled step's bytes by role on the fullest device; `None` before."""
        if not self._compiling.done() or self._compiling.exception() is not None:
            return None
        program = self.program
        placed = {**program.persistent, **program.fed}
        found = memory_by_role(program.graph, self.compiled, placed, program.copied_bytes)
        return None if found is None else {str(role): size for role, size in found.roles.items()}

    def agree(self, *, wish: bool) -> bool:
        """Returns True if any process wishes it, by a sum over all of them."""
        with explained():
            return bool(np.any(multihost_utils.process_allgather(np.array(wish))))

    def ready(self) -> None:
        """Wait until the step is compiled."""
        self._compiling.result()

    def wait(self) -> None:
        """Wait for the devices."""
        with explained():
            jax.block_until_ready((self._arrays, [*self._running]))

    def close(self) -> None:
        """Release the memory; a session that shares it keeps it."""
        self._compiling.exception()
        self._arrays, self._copies = {}, {}
        self._running.clear()

    def _share(self, other: Session) -> None:
        if not isinstance(other, XlaSession) or other.program.formats != self.program.formats:
            raise SessionError(NOTHING_SHARED)
        self._arrays, self._copies = other._arrays, other._copies  # noqa: SLF001 - of this class
        self._counted = other._counted  # noqa: SLF001

    @property
    def arrays(self) -> Mapping[str, jax.Array]:
        """Returns the parameters and states on the devices; the next step overwrites some."""
        self._add_counted()
        return self._arrays

    def _put(self, name: str, array: Array) -> None:
        with explained():
            # Without `may_alias` the caller's own memory could become the parameter's.
            self._arrays[name] = placed_whole(array, self.program.formats[name])
        self._counted.pop(name, None)

    def _get(self, name: str) -> Array:
        self._add_counted()
        return on_host(self._arrays[name])

    def persistent(self) -> dict[str, Array]:
        """Returns all parameters and states, copied to the host at the same time."""
        self._add_counted()
        for array in self._arrays.values():
            if array.is_fully_addressable:
                array.copy_to_host_async()
        return super().persistent()

    def _upload(self, feeds: Mapping[str, Array]) -> Uploaded:
        return _Inputs(self, self._placed(feeds))

    def _stage(self, feeds: Mapping[str, Array]) -> Uploaded:
        return self._upload(feeds)

    def _placed(self, feeds: Mapping[str, Array]) -> DeviceArrays:
        with explained():
            return placed_parts(feeds, self.program.fed)

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        match feeds:
            case _Inputs() if feeds.session is self:
                fed = feeds.arrays
            case Uploaded():
                raise foreign()
            case _:
                fed = self._placed(feeds)
        try:
            with explained():
                self._make_room()
                if self._counted.keys() - self.program.counters.keys():
                    self._add_counted()
                arrays, copies = self._arrays, self._copied()
                updated, constant = (
                    {key: (copies if key.is_copy else arrays)[key.name] for key in keys}
                    for keys in (self._updated, self._constant)
                )
                found, new = self.compiled(updated, constant, fed)
                for key in self._updated:
                    if not key.is_copy:
                        arrays[key.name] = new[key]
                for key in self._updated:
                    if key.is_copy:
                        self._copies[key.name] = arrays[key.name], new[key]
                for name, added in self.program.counters.items():
                    self._counted[name] = self._counted.get(name, 0) + added
        except OutOfMemoryError as error:
            need = step_memory(self.program.graph, self.compiled)
            raise MemoryExceededError(need, None) from error
        # XLA returns them in alphabetical order, in which 10 is before 2.
        outputs = {name: found[name] for name in self.program.graph.outputs}
        self._running.append([*outputs.values()])
        fetched = _Fetched(outputs, self.guard)
        size = sum(array.nbytes for array in outputs.values())
        if EAGER_OUTPUTS.is_on and size <= EAGER_OUTPUTS.value:
            fetched.request()
        return fetched

    def follow(self, feeds: Mapping[str, Array], links: Mapping[str, str]) -> Outputs:
        """Run a step with some outputs of the last step as inputs."""
        types = {name: value.type for name, value in self.program.graph.outputs.items()}
        given = self._placed(self._linked(feeds, links, types))
        last = self.outputs()
        assert isinstance(last, _Fetched)
        chained = {name: in_rows(last.arrays[output]) for name, output in links.items()}
        self._last = self._run(_Inputs(self, {**given, **chained}))
        return self._last

    def _copied(self) -> DeviceArrays:
        """Returns the bfloat16 copies by name; rounds them if the last step did not."""
        sources = {name: self._arrays[name] for name in self.program.copies}
        known = self._copies
        if any(name not in known or known[name][0] is not each for name, each in sources.items()):
            copies = self.program.rounded(sources)
            known |= {name: (each, copies[name]) for name, each in sources.items()}
        return {name: known[name][1] for name in sources}

    def _add_counted(self) -> None:
        """Add the pending increments to their states."""
        for name, count in [*self._counted.items()]:
            array = on_host(self._arrays[name])
            # Only arrays of an axis wrap around without a warning.
            total = array.reshape(1) + np.array([count]).astype(array.dtype)
            self._put(name, total.reshape(()))

    def _make_room(self) -> None:
        """Wait until fewer than `AHEAD` steps are queued."""
        if len(self._running) >= AHEAD:
            jax.block_until_ready(self._running.popleft())


class _Inputs(Uploaded):
    """Inputs on the devices."""

    def __init__(self, session: XlaSession, arrays: DeviceArrays) -> None:
        self.session: XlaSession | None = session
        self.arrays = arrays

    def close(self) -> None:
        """Release them; the memory is freed once no step needs it."""
        self.session, self.arrays = None, {}


class _Fetched(Outputs):
    """Outputs of one step, each copied to the host when it is first read."""

    def __init__(self, arrays: DeviceArrays, guard: Guard) -> None:
        self.arrays = arrays
        self._guard = guard

    def request(self) -> None:
        """Begin to copy all of them once they are computed."""
        for name in self.arrays:
            self._in_rows(name).copy_to_host_async()

    def __getitem__(self, name: str) -> Array:
        self._guard.require_process()
        return on_host(self._in_rows(name))

    def _in_rows(self, name: str) -> jax.Array:
        """Returns an output in row-major order, which it keeps."""
        self.arrays[name] = in_rows(self.arrays[name])
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)
