"""The session of a model whose parameters stay: what depends on them alone is computed once.

To whoever uses it, it is a session of the graph as it is written: the parameters are those of the
program, whatever the optimizer made of them.
"""

from collections.abc import Mapping

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph, reachable
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds, with_checks
from meganeura_dsl.ir.interpreter import Interpreter, Precision, storage_type
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.transforms.egraph.optimizer_problems import FoldedOverflow
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import (
    OpenSession,
    Outputs,
    Session,
    Uploaded,
    caches_of,
    leaf_types,
    persistent_first,
)
from meganeura_runtime.backends.compile_cache import Rewritten, cached_inference
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.session_proxy import SessionProxy


def open_inference(
    graph: Graph,
    open_session: OpenSession,
    rewriting: RewriteOptions,
    bounds: Mapping[str, Bound] | None = None,
) -> Session:
    """A session of a graph whose parameters change only when they are written.

    Its optimized form is cached. `bounds` are the known ranges of inputs that are indices. Raises
    `ProblemError` as `RewriteOptions.optimize` does, and at each step for indices that are out of
    range.
    """
    checked = with_checks(graph)
    if rewriting.enabled:
        session = InferenceSession(checked, cached_inference(checked, rewriting), open_session)
    else:
        session = open_session(checked)
    known = all_of(bounds or {}, leaf_bounds(graph))
    session = with_indices_checked(checked, session, known)
    session.begin(caches_of(graph))
    return session


def open_shared(
    graph: Graph, open_session: OpenSession, rewriting: RewriteOptions, other: Session | None
) -> Session:
    """A session of one of several graphs that keep the same tensors, as those of other sizes do.

    It shares what `other` keeps, or is the first, whose caches are cleared. The indices it is fed
    are for the caller to check; those it computes are checked. Raises as `open_inference`.
    """
    checked = shared_form(graph, rewriting)
    session = with_indices_checked(checked, open_session(checked), {})
    if other is None:
        session.begin(caches_of(graph))
    else:
        session.share(other)
    return session


def shared_form(graph: Graph, rewriting: RewriteOptions) -> Graph:
    """The graph as `open_shared` runs it: with checks, optimized, what it keeps first."""
    checked = with_checks(graph)
    if rewriting.enabled:
        checked = cached_inference(checked, rewriting, "train").graph
    return persistent_first(checked)


class InferenceSession(SessionProxy):
    """A graph optimized for inference, and what its parameters are derived from."""

    def __init__(self, graph: Graph, optimized: Rewritten, open_session: OpenSession) -> None:
        super().__init__(graph, open_session(optimized.graph))
        self._derive = Derivation(optimized.load)
        self._values: dict[str, Array] = {}
        self._stale = True

    def close(self) -> None:
        """Give the memory back."""
        super().close()
        self._values.clear()

    def reset(self) -> None:
        """Clear the caches, also those that no step updates but that parameters depend on."""
        super().reset()
        for name in self.caches:
            if name in self._derive.names or name not in self._inner.names:
                of = self._persistent[name]
                self._put(name, np.zeros(concrete_shape(of.shape), storage_type(of.dtype)))

    def _put(self, name: str, array: Array) -> None:
        if name in self._inner.names:
            self._inner.write(name, array)
        if name in self._derive.names or name not in self._inner.names:
            self._values[name] = array.copy()
            self._stale = True

    def _get(self, name: str) -> Array:
        return self._inner.read(name) if name in self._inner.names else self._values[name].copy()

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        if self._stale:
            self._inner.load(self._derive(self._values))
            self._stale = False
        return self._inner.step(feeds)


class Derivation:
    """The computation of parameters that an optimizer added, from those of the program."""

    def __init__(self, load: Graph) -> None:
        self._load = load
        self.names = frozenset(leaf_types(load)[0])
        self._interpreter = Interpreter(load, Precision.DOUBLE)
        self._types = {name: storage_type(value.type.dtype) for name, value in load.outputs.items()}

    def __call__(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Their values, computed in double precision and stored in their own types.

        Raises `ProblemError` for one that is finite, but not in its own type.
        """
        outputs = self._interpreter.run({name: values[name] for name in self.names}).outputs
        with np.errstate(over="ignore"):
            stored = {name: array.astype(self._types[name]) for name, array in outputs.items()}
        for name, array in stored.items():
            if (np.isfinite(outputs[name]) & ~np.isfinite(array)).any():
                dtype = self._load.outputs[name].type.dtype.value
                raise ProblemError(FoldedOverflow(name, dtype, self._sources(name)))
        return stored

    def _sources(self, name: str) -> tuple[str, ...]:
        """The parameters that an output is computed of."""
        reached = reachable([self._load.outputs[name]])
        return tuple(
            value.op.name
            for value in self._load.values
            if value.id in reached and isinstance(value.op, Parameter)
        )
