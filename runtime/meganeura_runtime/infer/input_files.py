"""Input files of a model: tensors as they are, images and sounds converted to tensors."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.infer.feeds import as_tensors, first_counter
from meganeura_runtime.infer.inference_problems import Kind, UnusedChoice, WrongInputs
from meganeura_runtime.io.data.data_files import open_data
from meganeura_runtime.io.data.data_problems import MissingTensor
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess import audio, images
from meganeura_runtime.io.preprocess.input_transforms import Choices
from meganeura_runtime.io.preprocess.preprocess_problems import UnfitInput
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor, stored_array

IMAGE_FORM = "an image becomes f32[n, 3, h, w], or f32[n, 1, h, w] in grey"
SOUND_FORM = "a sound becomes f32[n, mels, t]"


@dataclass(frozen=True)
class Given:
    """`image=cat.png`, or `cat.png` for the only input there is."""

    name: str | None
    path: Path

    @classmethod
    def parse(cls, text: str) -> "Given":
        """Parses an argument of the command line; a name is followed by `=`."""
        name, equals, path = text.partition("=")
        return cls(name, Path(path)) if equals and name.isidentifier() else cls(None, Path(text))


@dataclass
class Reader:
    """Reads the files of each input, and reports each step by `report`.

    What a model draws its random numbers from is `seed`, unless it is given too.
    """

    declared: Mapping[str, TensorType]
    choices: Choices
    report: Callable[[str], None]
    seed: int = 0
    tensors: dict[str, StoredTensor] = field(default_factory=dict[str, StoredTensor])

    def read(self, given: Sequence[Given]) -> Mapping[str, StoredTensor]:
        """The tensors of all inputs; raises `ProblemError`."""
        files: dict[str, list[Path]] = {}
        data = [name for name in self.declared if name != COUNTER]
        for each in given:
            if each.name is None and len(data) != 1:
                self._read_all(each.path)
            else:
                files.setdefault(each.name or data[0], []).append(each.path)
        unknown = tuple(sorted(files.keys() - self.declared.keys()))
        if unknown:
            raise self._wrong((), unknown)
        for name, paths in files.items():
            self._add(name, self._of(name, paths))
        suffixes = {path.suffix.lower() for paths in files.values() for path in paths}
        self._require_use(suffixes & set(images.SUFFIXES), self.choices.for_images, "image")
        if COUNTER in self.declared and COUNTER not in self.tensors:
            self.tensors |= as_tensors({COUNTER: first_counter(self.seed)})
        self._require_use(suffixes & set(audio.SUFFIXES), self.choices.for_sounds, "sound")
        return self.tensors

    def _require_use(self, read: Collection[str], options: Sequence[str], kind: Kind) -> None:
        """Refuse options about what was not read."""
        if options and not read:
            raise ProblemError(UnusedChoice(options[0], kind))

    def _read_all(self, path: Path) -> None:
        """Feed every input that a file holds a tensor for; the others may come from elsewhere."""
        if path.suffix not in (".npz", ".safetensors"):
            raise self._wrong(tuple(self.declared), ())
        for name, tensor in open_data(path).items():
            if name not in self.declared:
                raise self._wrong((), (name,))
            self._add(name, tensor)

    def _wrong(self, missing: tuple[str, ...], unknown: tuple[str, ...]) -> ProblemError:
        types = tuple((name, str(type_)) for name, type_ in self.declared.items())
        return ProblemError(WrongInputs(missing, unknown, types))

    def _add(self, name: str, tensor: StoredTensor) -> None:
        if name in self.tensors:
            reason = f"`{self.tensors[name].file}` feeds `{name}` already"
            raise ProblemError(UnreadableFile(tensor.file, reason))
        self.tensors[name] = tensor

    def _of(self, name: str, paths: Sequence[Path]) -> StoredTensor:
        """The tensor of one input; several images or sounds make a batch."""
        suffixes = {path.suffix.lower() for path in paths}
        if suffixes <= set(images.SUFFIXES):
            return _stacked(name, paths, self._images(name, paths))
        if suffixes <= set(audio.SUFFIXES):
            return _stacked(name, paths, self._sounds(name, paths))
        if len(paths) > 1:
            reason = f"`{paths[0]}` feeds `{name}` already, and tensors are not put together"
            raise ProblemError(UnreadableFile(paths[1], reason))
        return _tensor(paths[0], name)

    def _images(self, name: str, paths: Sequence[Path]) -> list[Array]:
        wanted, arrays = self.declared[name], list[Array]()
        form = self.choices.image_steps(wanted)
        if form is None:
            raise ProblemError(UnfitInput(name, paths[0], str(wanted), IMAGE_FORM))
        self.report(self.choices.image_source(form.colors))
        for numbers in (form.steps.mean, form.steps.std):
            if len(numbers) not in (1, form.colors):
                reason = f"{len(numbers)} numbers do not normalise {form.colors} colours"
                advice = f"give `--mean` and `--std` one number each, or {form.colors}"
                raise ProblemError(UnfitInput(name, paths[0], str(wanted), reason, advice))
        for path in paths:
            found = images.read_image(path, form.colors, form.steps)
            colours = "in colour" if form.colors == 3 else "in grey"
            self.report(f"{name}: {path}, {found.height} x {found.width}, {colours}, {form.steps}")
            arrays.append(found.values)
        if len({array.shape for array in arrays}) > 1:
            reason, advice = "the images of a batch have different sizes", "make them equal by "
            size = " x ".join(map(str, arrays[0].shape[-2:]))
            advice += f"`--image-size {arrays[0].shape[-1]}`; the first is {size}"
            raise ProblemError(UnfitInput(name, paths[0], str(wanted), reason, advice))
        return arrays

    def _sounds(self, name: str, paths: Sequence[Path]) -> list[Array]:
        wanted, sounds = self.declared[name], list[Array]()
        form = self.choices.sound_form(wanted)
        if form is None:
            raise ProblemError(UnfitInput(name, paths[0], str(wanted), SOUND_FORM))
        if self.choices.sound_source is not None:
            self.report(self.choices.sound_source)
        if self.choices.seconds is not None and isinstance(wanted.shape[2], int):
            reason = f"it takes {form.frames:,} frames, whatever `--seconds` says"
            advice = "leave `--seconds` out"
            raise ProblemError(UnfitInput(name, paths[0], str(wanted), reason, advice))
        for path in paths:
            found = audio.read_sound(path, form.mels, form.frames)
            channels = "mono" if found.channels == 1 else f"{found.channels} channels mixed"
            self.report(
                f"{name}: {path}, {found.seconds:.2f} s at {found.rate:,} Hz, {channels}, "
                f"log-mel {form.mels} x {form.frames:,}, silence up to {form.frames / 100:g} s"
            )
            sounds.append(found.values)
        return sounds


def _stacked(name: str, paths: Sequence[Path], values: Sequence[Array]) -> StoredTensor:
    return stored_array(paths[0], name, np.stack(values))


def _tensor(path: Path, name: str) -> StoredTensor:
    """The tensor of that name in a file, or the only one."""
    tensors = open_data(path)
    if name not in tensors and len(tensors) != 1:
        raise ProblemError(MissingTensor(None, path, name, tuple(tensors)))
    return tensors.get(name) or next(iter(tensors.values()))
