"""A model in Python: its weights, its results, and its exports."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from operator import index
from pathlib import Path
from typing import SupportsIndex, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from meganeura.notebook.views import model_html
from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.declarations.generation import TokenGraph, TokenStep
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import all_of, leaf_bounds
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import TensorType, free_sizes
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.summary import Summary, summarize
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import OpenSession, Session
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.backends.packed_session import open_packed
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.export.onnx.export import export_onnx
from meganeura_runtime.export.onnx.options import NEWEST_OPSET, OnnxOptions
from meganeura_runtime.infer.feeds import as_tensors, feeds, first_counter
from meganeura_runtime.infer.generator import (
    Generator,
    Sampling,
    streamed,
)
from meganeura_runtime.infer.input_files import Given, Reader
from meganeura_runtime.infer.prediction import ClassNames, Prediction, Predictor, files_of
from meganeura_runtime.infer.recomputation import Recomputation, open_generator
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.infer.text_task import TextTask
from meganeura_runtime.infer.transcription import Speech, SpeechTask, Transcriber
from meganeura_runtime.io.preprocess import preprocessor_config
from meganeura_runtime.io.preprocess.input_transforms import Choices
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation, preparation_of
from meganeura_runtime.io.preprocess.speech_tokens import speech_tokens
from meganeura_runtime.io.preprocess.tokens import Tokenizer, require_vocabulary, tokenizer_of
from meganeura_runtime.io.tensors.host_array import host_array
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor
from meganeura_runtime.io.weights import initial_values, write_weights
from meganeura_runtime.train.spec.train_spec import Start


def _paths(given: object) -> list[Path]:
    """The files that are given in place of an array: paths, or texts that name them.

    Raises `ValueError` for a list of files and of something else.
    """
    several = cast("list[object]", given) if isinstance(given, list | tuple) else [given]
    named = [Path(each) for each in several if isinstance(each, str | Path)]
    if named and len(named) < len(several):
        raise ValueError(f"a batch is of files or of arrays, not of both: `{named[0]}` is a file")
    return named


def _require_names(given: object, wanted: Mapping[str, TensorType]) -> None:
    """Raise `TypeError` for inputs that are given without their names."""
    if given is not None and not isinstance(given, Mapping):
        names = ", ".join(f'"{name}": ...' for name in wanted if name != COUNTER)
        raise TypeError(f"inputs are given by their names: {{{names}}}")


def _names(argument: str, given: Sequence[str]) -> tuple[str, ...]:
    """The names that an argument lists; raises `TypeError` for one text, whose letters are none."""
    if isinstance(given, str):
        raise TypeError(f"`{argument}` is a list of names: {argument}=[{given!r}]")
    return tuple(given)


class WritingOptions(TypedDict, total=False):
    """Options of `Model.generate` and `Model.transcribe`, each by its name."""

    steps: int | None
    """The most tokens, of a sound those of a window, such as 30 s; see there what None is."""
    temperature: float
    """0 takes the likeliest token; others draw it from softmax(logits / temperature)."""
    top_k: int
    """The number of likeliest tokens to draw from; 0, the default, draws from all."""
    seed: int
    """The seed of tokens drawn at random: 0 by default, and less than 2**32."""
    tokenizer: Path | str | None
    """A tokenizer.json; by default the one beside the weights, or the bytes of a text."""
    device: str
    """A name that `meganeura devices` lists, or `auto`, as it is by default."""


class Model:
    """A model with its weights. Sizes that the program leaves open are those of the inputs."""

    def __init__(
        self,
        program: pipeline.Program,
        name: str | None,
        config: Mapping[str, StaticValue],
        optional: frozenset[str] = frozenset(),
    ) -> None:
        self._program = program
        self._name = name
        self._config = config
        self._optional = optional
        symbolic = self._elaborated()
        for each in sorted(optional - symbolic.inputs.keys()):
            raise ValueError(f"the model has no optional input `{each}`")
        self.parameters: tuple[ParameterInfo, ...] = symbolic.parameters
        """The parameters in a checkpoint of it, in order."""
        self.inputs: Mapping[str, TensorType] = symbolic.inputs
        """The tensors it takes."""
        self._symbolic = symbolic
        self._files: tuple[Path, ...] = ()
        self._levels: Mapping[str, Quantization] = {}
        self.preparation: Preparation = NOTHING
        """The preparation of the weights' training data: the names of the classes, and the
        treatment of images, sounds and texts."""
        self.values: dict[str, Array] = {}
        """The value of every parameter and state, by name; empty until there are some."""

    def __repr__(self) -> str:
        """`<Model digits_mlp(image: f32[n, 1, 8, 8]): 2,410 weights in 4 parameters>`."""
        inputs = ", ".join(f"{name}: {of}" for name, of in self.inputs.items() if name != COUNTER)
        elements = sum(prod(concrete_shape(each.type.shape)) for each in self.parameters)
        held = f"{elements:,} weights in {len(self.parameters)} parameters"
        if self.parameters and not self.values:
            held += ", without values"
        return f"<Model {self._program.model(self._name)}({inputs}): {held}>"

    def _repr_html_(self) -> str:
        """The inputs, the parameters and the layers, for a notebook."""
        inputs = [(name, str(of)) for name, of in self.inputs.items() if name != COUNTER]
        count = f"{len(self.parameters)}" + ("" if self.values else ", without values")
        facts = [*inputs, ("parameters", count if self.parameters else "")]
        return model_html(self._program.model(self._name), facts, self.summary().text())

    def load(self, start: Start, seed: int) -> None:
        """Take the weights of files, all of them or none; what may be missing starts anew.

        Raises `ProblemError` for files that cannot be read and for tensors that do not fit.
        """
        found = start.compared(self.parameters)
        anew = [each for each in self.parameters if each.name in found.anew]
        self.values = {**initial_values(anew, seed), **found.read()}
        self._files = start.files
        self._levels = found.quantized
        self.preparation = preparation_of(start.files)

    def summary(self, sizes: Mapping[str, SupportsIndex] | None = None) -> Summary:
        """The layers, as `meganeura summary` shows them: printed it is that table.

        `sizes` gives numbers for sizes that the inputs leave open, of which shapes and arithmetic
        then are numbers, such as `{"h": 224, "w": 224}`; the number of examples is 1 if it is not
        given. `summary().text(depth=1)` is the table of the outer layers. Raises `ProblemError` for
        sizes that the model cannot have, `ValueError` for one that no input has or below 1.
        """
        numbers = {name: index(size) for name, size in (sizes or {}).items()}
        known = free_sizes(self.inputs.values())
        for name, number in numbers.items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ValueError(f"the inputs leave no size `{name}` open, but {listed}")
            if number < 1:
                raise ValueError(f"the size `{name}` is a number from 1, not {number}")
        return summarize(self._program.model(self._name), self._elaborated, numbers)

    def session(
        self,
        sizes: Mapping[str, SupportsIndex] | None = None,
        *,
        values: Sequence[str] = (),
        device: str = "auto",
        precision: str = "f32",
    ) -> Session:
        """The model on a device, with its weights, for inputs of these sizes.

        `values` are names of values, in which `*` stands for any characters: labels of layers and
        names of the program, with the paths of layers before them, such as `layers.0.attn`. Each
        step returns them beside the outputs.

        `sizes` gives each size that the inputs leave open, such as `{"n": 4}` for
        `image: [n, 1, 8, 8]`. `device` is a name that `meganeura devices` lists, or `auto`;
        `precision` is `f32`, on `xla` also `tf32` or `bf16`, on `dawn` also `f16`. Raises
        `ProblemError` for sizes the model cannot have and for a device that is not there, refuses
        the model or the precision, or has too little memory; `ValueError` for a size that is
        missing or that no input has, for another precision, and if the model has no weights.
        """
        self._require_values()
        numbers = self._all_sizes(sizes or {})
        concrete = self._elaborated(numbers, values=_names("values", values))
        floats = ComputePrecision(precision)
        rules = RewriteOptions(device=model_of(device, floats))
        with explained_failures():
            chosen = choose_device(device, precision=floats)
            session = open_inference(concrete.graph, self._opening(chosen), rules)
            session.load(self.values)
        return session

    def run(
        self,
        inputs: Mapping[str, ArrayLike | Path | Sequence[Path]] | None = None,
        *,
        values: Sequence[str] = (),
        seed: int = 0,
        device: str = "auto",
        precision: str = "f32",
    ) -> dict[str, Array]:
        """The outputs, by name, for one array for each of `self.inputs`, by name.

        Behind them stand the values that `values` names, as in `session`.

        In place of an array, the path of an image, a sound or a file of tensors, or a list of paths
        for a batch, is read as `meganeura run` reads it: prepared as in training where the weights
        say how.

        A model that draws random numbers draws them from `seed`, unless `counter` is among the
        inputs.
        The sizes that the inputs leave open are those of the arrays. An array of another type is
        converted if no value changes its meaning: integers to floats, wide numbers to narrow ones
        that hold them. Each call opens the device anew: to run many, keep a `session`. Raises
        `ProblemError` for inputs that do not fit and as `session` does; `ValueError` for arrays of
        an element type that no tensor has, or if the model has no weights; `TypeError` for inputs
        without their names.
        """
        self._require_values()
        _require_names(inputs, self.inputs)
        paths = {name: _paths(each) for name, each in (inputs or {}).items()}
        given = {
            name: host_array(array) for name, array in (inputs or {}).items() if not paths[name]
        }
        if COUNTER in self.inputs:
            given.setdefault(COUNTER, first_counter(seed))
        tensors = {**self._read({name: each for name, each in paths.items() if each})}
        tensors |= as_tensors(given)
        sizes = bind_sizes(self.inputs, {name: each.shape for name, each in tensors.items()})
        bounds = all_of(
            leaf_bounds(self._symbolic.graph, sizes), self._symbolic.stated_bounds(sizes)
        )
        fed = feeds(bounds, self.inputs, tensors)
        with (
            explained_failures(),
            self.session(sizes, values=values, device=device, precision=precision) as session,
        ):
            outputs = session.step(fed)
            return {name: np.asarray(value) for name, value in outputs.items()}

    def predict(
        self,
        files: Path | str | Sequence[Path | str],
        *,
        classes: Sequence[str] | None = None,
        batch: int = 32,
        image_size: int | None = None,
        device: str = "auto",
        precision: str = "f32",
    ) -> list[Prediction]:
        """Returns the outputs for each of many images or sounds, as `meganeura predict` does.

        `files` are paths, of which a folder stands for all images and sounds below it. They are
        prepared as in training where the weights say how, and computed in batches of `batch`;
        `image_size` is the height and width that images get otherwise. `classes` replaces the names
        that the weights say. Raises `ProblemError` for files that cannot be read or do not fit, a
        model without a row of outputs for each file, names that are not as many as the classes, and
        as `session` does; `ValueError` for a size or batch below 1, and if it has no weights.
        """
        self._require_values()
        for name, number in (("batch", batch), ("image_size", image_size)):
            if number is not None and index(number) < 1:
                raise ValueError(f"`{name}` is a number from 1, not {number}")
        given = [files] if isinstance(files, str | Path) else list[object](files)
        paths = [Path(each) for each in given if isinstance(each, str | Path)]
        if not paths or len(paths) < len(given):
            raise ValueError("`files` are paths of files and folders; `run` takes arrays")
        names = ClassNames(self.preparation.classes)
        if classes is not None:
            names = ClassNames(_names("classes", classes), "classes")
        model, floats = self._program.model(self._name), ComputePrecision(precision)
        rules, choices = RewriteOptions(device=model_of(device, floats)), self._choices(image_size)
        with explained_failures():
            opened = self._opening(choose_device(device, precision=floats))
            predictor = Predictor(
                model, self._elaborated, self.values, opened, rules, choices, batch, names
            )
            return [*predictor(files_of(paths))]

    def generator(
        self,
        capacity: int,
        *,
        rows: int = 1,
        sizes: Mapping[str, int] | None = None,
        device: str = "auto",
        precision: str = "f32",
    ) -> Generator | Recomputation:
        """The model on a device as what draws tokens, with caches for `capacity` of them.

        A model without caches computes all tokens anew for each, with a graph for each length.

        `rows` is how many sequences of one length it goes on with at once. Its method `tokens`
        gives what follows a prompt. If the model takes other inputs than tokens, `read` takes them
        before; `sizes` gives those sizes that they leave open. Raises `ProblemError` for a model
        that does not generate, and as `session` does.
        """
        step = TokenStep(capacity, 1, rows, sizes=tuple((sizes or {}).items()))
        return self._generator(step, device, precision)

    def _generator(
        self, step: TokenStep, device: str, precision: str = "f32"
    ) -> Generator | Recomputation:
        self._require_values()
        floats = ComputePrecision(precision)
        rules = RewriteOptions(device=model_of(device, floats))
        with explained_failures():
            chosen = choose_device(device, precision=floats)
            opened = self._opening(chosen)
            return open_generator(self._token_step, self.values, opened, rules, step)

    def generate(self, prompt: str, **options: Unpack[WritingOptions]) -> Iterator[str]:
        """The text that follows a prompt, a piece for each token that finishes a character.

        A model that takes a text beside its tokens, as T5 does, answers the prompt. `options` are
        those of `WritingOptions`; `steps` is 128, or as many as fit, if it is not given. The text
        ends with a token that the checkpoint says ends it. To generate often, keep a `generator`.
        Raises `ProblemError` for a prompt that is empty or too long, a setting that is out of
        range, a tokenizer that does not fit, and as `generator` does.
        """
        words, sampling, device = self._writing(options)
        task = TextTask.of(self._token_step, words, prompt, options.get("steps"), sampling)
        generator = self._generator(task.step, device)
        require_vocabulary(words, generator.vocabulary)

        def pieces() -> Iterator[str]:
            with generator:
                if task.context:
                    generator.read(task.context)
                tokens = generator.tokens(task.ids, task.steps, sampling)
                yield from streamed(words, tokens, task.ends)

        return pieces()

    def transcribe(
        self,
        sound: Path | str,
        *,
        language: str | None = None,
        task: str | None = None,
        timestamps: bool = False,
        **options: Unpack[WritingOptions],
    ) -> Iterator[str]:
        """Yields the words of a sound file piece by piece; with `timestamps` a line for each part.

        `language` is a code such as `en`, the one that is heard if it is not given; `task` is
        `transcribe` or `translate`. What there is of these is said by the `generation_config.json`
        beside the weights. `options` are those of `WritingOptions`; `steps` is as many as fit, if
        it is not given. Raises `ProblemError` for a model that takes no sound, for what it cannot
        do, for a file that is no sound, and as `generator` does.
        """
        words, sampling, device = self._writing(options)
        speech_task = SpeechTask.of(self._token_step, self._files)
        with ExitStack() as stack:
            generator = stack.enter_context(self._generator(speech_task.step, device))
            require_vocabulary(words, generator.vocabulary)
            known = speech_tokens(self._files, words, generator.vocabulary)
            transcriber = Transcriber(generator, speech_task, words, known)
            speech = Speech(language, task, timestamps)
            pieces = transcriber(Path(sound), speech, options.get("steps"), sampling)
            opened = stack.pop_all()

        def closing_pieces() -> Iterator[str]:
            with opened:
                yield from pieces

        return closing_pieces()

    def _writing(self, options: WritingOptions) -> tuple[Tokenizer, Sampling, str]:
        """Returns the tokenizer, sampling and text that the options give, with defaults."""
        if unknown := options.keys() - WritingOptions.__annotations__.keys():
            raise TypeError(f"there is no option `{min(unknown)}`")
        chosen = options.get("tokenizer")
        words = tokenizer_of(self._files, None if chosen is None else Path(chosen))
        temperature, top_k = options.get("temperature", 0.0), options.get("top_k", 0)
        sampling = Sampling(temperature, top_k, options.get("seed", 0))
        return words, sampling, options.get("device", "auto")

    def _token_step(self, step: TokenStep) -> TokenGraph:
        return pipeline.elaborate_tokens(self._program, self._name, self._config, step)

    def export(
        self, path: Path | str, *, opset: int = NEWEST_OPSET, fold_batch_norm: bool = False
    ) -> None:
        """Write the model with its weights as ONNX, of opset 17 to 20; open sizes stay symbols.

        Raises `ProblemError` for what ONNX cannot say, if ONNX Runtime does not give what the model
        gives, or where the extra `onnx` is not installed; `ValueError` for another opset, or if the
        model has no weights.
        """
        self._require_values()
        options = OnnxOptions(opset, fold_batch_norm, self.preparation.entries)

        name = self._program.model(self._name)
        export_onnx(name, self._elaborated, self.values, Path(path), options)

    def save(self, path: Path | str) -> None:
        """Write the weights as safetensors, with the names and types of the checkpoint.

        Raises `ProblemError` if the file cannot be written, `ValueError` if there are no weights.
        """
        self._require_values()
        entries = {"format": "pt", **self.preparation.entries}
        write_weights(Path(path), self.parameters, self.values, entries)

    def _read(self, files: Mapping[str, Sequence[Path]]) -> Mapping[str, StoredTensor]:
        """The tensors of files, by the names of inputs; raises `ProblemError`."""
        if not files:
            return {}
        choices = self._choices()
        inputs = {name: of for name, of in self.inputs.items() if name != COUNTER}
        reader = Reader(inputs, choices, lambda _: None)
        return reader.read([Given(name, path) for name, each in files.items() for path in each])

    def _choices(self, image_size: int | None = None) -> Choices:
        """Returns the preparation of files: that of the weights, or of a file beside them."""
        config = preprocessor_config.find(self._files[0]) if self._files else None
        return Choices(image_size, config=config, prepared=self.preparation)

    def _elaborated(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        training: bool = False,
        values: tuple[str, ...] = (),
    ) -> Elaboration:
        """The graph; sizes that are not given stay symbols."""
        return pipeline.elaborate_model(
            self._program, self._name, config=self._config, sizes=sizes, training=training,
            optional=self._optional, asked=pipeline.Asked(values) if values else None,
        )  # fmt: skip

    def _all_sizes(self, given: Mapping[str, SupportsIndex]) -> dict[str, int]:
        """The sizes that are given, if they are those that the inputs leave open."""
        sizes = [size for each in self.inputs.values() for size in each.shape]
        names = [size.variables() for size in sizes if isinstance(size, Dim)]
        wanted = frozenset[str]().union(*names)
        if wanted.symmetric_difference(given):
            listed = ", ".join(sorted(wanted)) or "no size"
            text = f"the inputs leave open {listed}; given are {', '.join(given) or 'none'}"
            raise ValueError(text)
        return {name: index(size) for name, size in given.items()}

    def _opening(self, device: OpenDevice) -> OpenSession:
        """Opens sessions that keep quantized weights packed, where the device runs them so.

        Those that were given other values since are no longer quantized.
        """
        shapes = {each.name: concrete_shape(each.type.shape) for each in self.parameters}
        kept = {
            name: how
            for name, how in device.packs(self._levels).items()
            if np.shape(self.values[name]) == shapes[name] and how.represents(self.values[name])
        }
        return open_packed(device.open, kept)

    def _require_values(self) -> None:
        if not self.values and self.parameters:
            raise ValueError("the model has no weights: give it `weights`, or a `seed` to try it")
