"""Measures held-out examples: all of them, each once, the last batch as small as it is."""

from collections import deque
from collections.abc import Mapping

from meganeura_dsl.ir.graph import Graph
from meganeura_runtime.backends.base import OpenSession, Outputs, Session
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.io.data.batches import even_batch, runs
from meganeura_runtime.io.data.splits import Split
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.job import Job, rewriting_of
from meganeura_runtime.train.session_inputs import feeds


class Evaluator:
    """Sessions that measure batches, one for each size that occurs; opened when first needed."""

    def __init__(self, job: Job, open_session: OpenSession) -> None:
        self.job = job
        self.open_session = open_session
        self.opened: dict[int, tuple[Graph, Session]] = {}

    def measure(self, split: Split, kept: Mapping[str, Array]) -> dict[str, float]:
        """The mean loss and metrics over all examples, with these parameters and states."""
        totals: dict[str, float] = {}
        unread: deque[tuple[int, Outputs]] = deque()
        written: set[int] = set()
        batch = self.job.batch
        if not split.is_ordered:
            batch = even_batch(split.examples, batch, self.job.settings.devices)
        for run in runs(split.examples, batch):
            examples = run.stop - run.start
            graph, session = self._session(examples)
            if examples not in written:
                session.load({name: kept[name] for name in session.names})
                written.add(examples)
            taken = split.take_own(run, session.own(examples))
            fed = feeds(graph, taken, self.job.settings.seed, 0, 0.0)
            outputs = session.step(fed)
            outputs.request()
            unread.append((examples, outputs))
            if len(unread) > session.ahead:
                _add(totals, *unread.popleft())
        for each in unread:
            _add(totals, *each)
        return {name: total / split.examples for name, total in totals.items()}

    def close(self) -> None:
        """Give the memory of all sessions back."""
        for _, session in self.opened.values():
            session.close()
        self.opened.clear()

    def _session(self, examples: int) -> tuple[Graph, Session]:
        if examples not in self.opened:
            graph = self.job.evaluation(examples)
            rewriting = rewriting_of(self.job.settings, self.job.device)
            self.opened[examples] = graph, open_inference(graph, self.open_session, rewriting)
        return self.opened[examples]


def _add(totals: dict[str, float], examples: int, outputs: Outputs) -> None:
    """Add the means over so many examples, as often as there are examples."""
    for name, value in outputs.items():
        totals[name] = totals.get(name, 0.0) + float(value) * examples
