"""Problems of exporting caches: an exported model computes the same each time it is called."""

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Report
from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.base import caches_of


class ExportedCache(Problem, code="E0667", topic="cache"):
    """A model with caches is to be exported or compiled into a file."""

    name: str
    form: str

    def report(self) -> Report:
        return self.message(
            f"the model has the cache `{self.name}`, and {self.form} keeps nothing between calls",
            cure=Help("configure it without caches, or run it with `meganeura generate`"),
        )


def require_no_caches(graph: Graph, form: str) -> None:
    """Raise `ProblemError` for a model that has caches; `form` is what it is to become."""
    for name in caches_of(graph):
        raise ProblemError(ExportedCache(name, form))
