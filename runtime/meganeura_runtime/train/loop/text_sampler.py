"""Writes the samples of a language model in training, on the device of the run."""

from collections.abc import Mapping

from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Closing, OpenSession
from meganeura_runtime.infer.generator import Generator, streamed
from meganeura_runtime.infer.recomputation import Recomputation, open_generator
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.spec.text_sample import TextSample


class TextSampler(Closing):
    """Writes a sample whenever it is called; its sessions stay open."""

    def __init__(
        self, sample: TextSample, open_session: OpenSession, rewriting: RewriteOptions
    ) -> None:
        self._sample = sample
        self._open = open_session
        self._rewriting = rewriting
        self._made: Generator | Recomputation | None = None

    def __call__(self, values: Mapping[str, Array]) -> str:
        """Returns what the model writes with these parameters of the training."""
        sample, task = self._sample, self._sample.task
        begins = len(sample.prefix)
        own = {
            name[begins:]: value for name, value in values.items() if name.startswith(sample.prefix)
        }
        if self._made is None:
            self._made = open_generator(
                sample.elaborate, own, self._open, self._rewriting, task.step
            )
        else:
            self._made.load(own)
        if task.context:
            self._made.read(task.context)
        tokens = self._made.tokens(task.ids, task.steps, sample.sampling)
        return "".join(streamed(sample.words, tokens, task.ends))

    def close(self) -> None:
        """Give the memory of the sessions back."""
        if self._made is not None:
            self._made.close()
