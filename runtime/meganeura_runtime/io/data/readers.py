"""Readers of a `data` setting: files of tensors, folders of classes, tables, texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.settings.run_settings import ReaderOptions
from meganeura_dsl.symbolic.size import evaluate
from meganeura_runtime.io.data.class_folders import (
    ClassFolder,
    DecodedFiles,
    class_folder,
    class_names,
    is_class_folder,
)
from meganeura_runtime.io.data.data_files import files_of, join_shards, open_data
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.decoders import Decoder, ImageDecoder, SoundDecoder
from meganeura_runtime.io.data.folder_problems import WrongReader
from meganeura_runtime.io.data.tables import SUFFIXES as TABLES
from meganeura_runtime.io.data.tables import read_table, with_fractions
from meganeura_runtime.io.data.texts import SUFFIXES as TEXTS
from meganeura_runtime.io.data.texts import read_text, require_sequences
from meganeura_runtime.io.preprocess.images import Filter
from meganeura_runtime.io.preprocess.input_transforms import Choices, shown_size
from meganeura_runtime.io.preprocess.preparation import (
    BYTES,
    NOTHING,
    Preparation,
    tokenizer_digest,
)
from meganeura_runtime.io.preprocess.preprocess_problems import UnfitInput
from meganeura_runtime.io.preprocess.tokens import read_tokenizer
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


def classes_of(path: Path) -> tuple[str, ...]:
    """The names of the classes of a folder or a glob of folders; nothing of other data."""
    folders = files_of(path)
    return class_names(folders) if all(is_class_folder(each) for each in folders) else ()


@dataclass(frozen=True)
class Reader:
    """Reads files for the inputs of a program."""

    input_spec: InputSpec
    reading: ReaderOptions
    workers: int
    """Processes that decode images and sounds."""
    preprocess: Path | None = None
    """The file that says how images are prepared."""
    tokenizer: Path | None = None
    span: Span | None = None
    """The setting that names the data."""
    classes: tuple[str, ...] = ()
    """The names of the classes that are trained on, where what is read is held out."""
    more: tuple[str, ...] = ()
    """Columns of a table besides those of the inputs, which say how often examples are drawn."""

    def tensors(self, path: Path) -> dict[str, StoredTensor]:
        """All tensors of a file, a folder or a glob; raises `ProblemError`."""
        files = files_of(path)
        if files == (path,) or any(is_class_folder(each) for each in files):
            found = self._read(path, files)
        else:
            opened = [self._read(file, (file,)) for file in files]
            if all(self._is_table(each) for each in files):
                opened = with_fractions(opened, self.input_spec, self.more)
            found = join_shards(files, opened, self.span)
        if any(self._is_text(each) for each in files):
            require_sequences(path, found, self.span)
        return found

    def preparation(self, path: Path, tensors: Mapping[str, StoredTensor]) -> Preparation:
        """Returns the preparation of a path's files, for users of the trained weights."""
        contents = (each.content for each in tensors.values())
        decoded = next((each for each in contents if isinstance(each, DecodedFiles)), None)
        if decoded is not None:
            return replace(decoded.decoder.preparation, classes=classes_of(path))
        if any(self._is_text(each) for each in files_of(path)):
            found = BYTES
            if self.tokenizer is not None:
                found = tokenizer_digest(read_tokenizer(self.tokenizer))
            return Preparation(tokenizer=found)
        return NOTHING

    def _read(self, path: Path, files: Sequence[Path]) -> dict[str, StoredTensor]:
        """One file, or folders of classes that a path means."""
        has_classes = any(is_class_folder(each) for each in files)
        reading = self.reading
        of_images = (reading.crop, reading.mean, reading.std, reading.resample, self.preprocess)
        if any(each is not None for each in of_images):
            advice = "name the folder above the classes; of a file of tensors leave these out"
            reason = "images lie in a folder of folders, each a class"
            self._require(path, has_classes, reason, advice)
        if self._is_table(path):
            is_known = path.suffix.lower() in TABLES
            reason = "a table is a .csv, .tsv or .parquet file"
            self._require(path, is_known, reason, 'read tensors by `file("x.npz", x="name")`')
            return read_table(path, self.input_spec, reading.columns, self.span, self.more)
        if self._is_text(path):
            return read_text(path, self.input_spec, self.tokenizer, self.span)
        if not has_classes:
            return open_data(path, self.span)
        found = class_folder(files, self.span, self.classes)
        return found.tensors(path, self._decoder(found, path), self.workers)

    def _is_table(self, path: Path) -> bool:
        return bool(self.reading.columns) or path.suffix.lower() in TABLES

    def _is_text(self, path: Path) -> bool:
        is_named = self.tokenizer is not None or path.suffix.lower() in TEXTS
        return is_named and not self._is_table(path)

    def _require(
        self,
        path: Path,
        is_kind: bool,  # noqa: FBT001 - what is required
        reason: str,
        advice: str,
    ) -> None:
        if not is_kind:
            raise ProblemError(WrongReader(self.span, path, reason, advice))

    def _decoder(self, found: ClassFolder, path: Path) -> Decoder:
        """Returns the decoder of a folder's files for the input of their name."""
        input_spec, kind = self.input_spec, found.kind
        named = [name for name in input_spec.inputs if input_spec.tensors.get(name, name) == kind]
        if not named:
            reason = f"it holds `{kind}` and `label`; the inputs are {', '.join(input_spec.inputs)}"
            first = next(iter(input_spec.inputs))
            advice = f'call an input `{kind}`, or name it: `file("...", {first}="{kind}")`'
            raise ProblemError(WrongReader(self.span, path, reason, advice))
        symbolic = input_spec.inputs[named[0]]
        shape = tuple(evaluate(size, input_spec.sizes) for size in symbolic.shape)
        wanted = TensorType(symbolic.dtype, shape)
        if kind == "image":
            return self._of_images(named[0], wanted, path)
        of_images = self.reading.model_dump(exclude_defaults=True)
        first = next(iter(of_images), "")
        self._require(path, not of_images, f"`{first}` is about images", f"leave `{first}` out")
        form = Choices().sound_form(wanted)
        if form is None:
            reason = "a sound becomes f32[n, mels, t]"
            advice = f"declare `{named[0]}` as a spectrogram, `[batch, 80, 3000]`"
            raise ProblemError(UnfitInput(named[0], path, str(symbolic), reason, advice))
        return SoundDecoder(form.mels, form.frames)

    def _of_images(self, name: str, wanted: TensorType, path: Path) -> ImageDecoder:
        """Images in the size of an input, prepared as the settings say."""
        reading = self.reading
        choices = Choices(
            crop=reading.crop,
            mean=None if reading.mean is None else tuple(reading.mean),
            std=None if reading.std is None else tuple(reading.std),
            filter=None if reading.resample is None else Filter[reading.resample.upper()],
            config=self.preprocess,
        )
        form = choices.image_steps(wanted)
        reason = "an image becomes f32[n, 3, h, w], or f32[n, 1, h, w] in grey"
        if form is not None:
            height, width = (evaluate(size, {}) for size in wanted.shape[2:])
            steps, colors = form.steps, form.colors
            for setting, numbers in (("mean", steps.mean), ("std", steps.std)):
                if len(numbers) not in (1, colors):
                    reason = f"`{setting}` has {len(numbers)} numbers"
                    advice = f"give one, or one for each channel: {colors}"
                    raise ProblemError(UnfitInput(name, path, str(wanted), reason, advice))
            if shown_size(steps) == (height, width):
                return ImageDecoder(colors, height, width, steps)
            reason = f"images are {steps}"
            advice = (
                f"prepare them as {height} x {width}, or declare `{name}` in the size they have"
            )
            raise ProblemError(UnfitInput(name, path, str(wanted), reason, advice))
        advice = f"declare `{name}` as pictures, `[batch, 3, 224, 224]`"
        raise ProblemError(UnfitInput(name, path, str(wanted), reason, advice))
