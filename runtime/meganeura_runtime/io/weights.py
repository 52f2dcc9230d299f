"""Weights in safetensors files: loaded strictly, saved so that PyTorch loads them strictly.

Every declared parameter must be in the files and every tensor of the files must be declared, in its
shape. All differences are reported together, and nothing is loaded in part. Globs may excuse names.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from shlex import quote
from typing import Protocol

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Remark, Report
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.initializers import sample
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.shape_mismatch import transposed
from meganeura_runtime.io.tensors.sharded_weights import open_all
from meganeura_runtime.io.tensors.stored_tensor import (
    BITS,
    NUMPY,
    Array,
    StoredTensor,
    read_verified,
    stored_array,
    verify,
)
from meganeura_runtime.io.weight_names import AS_STORED, Names

LISTED = 12
"""The number of names of one kind that a message shows, unless all were asked for."""


class Declared(Protocol):
    """A parameter as the program declares it."""

    @property
    def name(self) -> str:
        """Its key in checkpoint files."""
        ...

    @property
    def type(self) -> TensorType:
        """The type that graphs compute with; all sizes are numbers."""
        ...

    @property
    def stored(self) -> str:
        """Its type in checkpoint files."""
        ...


@dataclass(frozen=True)
class Allowed:
    """Globs of names that may differ, each of which must excuse something.

    A name that may be both missing and unexpected may also have another shape: the tensor of the
    file is left unused, and the parameter of the model starts anew.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()


STRICT = Allowed()
"""No difference is allowed."""


@dataclass(frozen=True)
class Difference:
    """A tensor that is in the file and declared, but of another shape or kind."""

    name: str
    given: str
    wanted: str
    hint: str = ""


class WeightsMismatch(Problem, code="E0540", topic="weights"):
    """A weights file and the parameters of a model are not the same set of tensors."""

    file: Path
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    shapes: tuple[Difference, ...]
    types: tuple[Difference, ...]
    listed: int | None = LISTED
    """The number of names of each kind to show, all of them for `None`."""

    def report(self) -> Report:
        """List what differs, the first few of each kind."""
        counts = (
            (len(self.missing), "missing"),
            (len(self.unexpected), "unexpected"),
            (len(self.shapes), "of another shape"),
            (len(self.types), "of another type"),
        )
        summary = ", ".join(f"{count} {what}" for count, what in counts if count)
        remarks = (
            *self._listed("missing", [self._with_nearest(name) for name in self.missing]),
            *self._listed("unexpected", self.unexpected),
            *self._listed("shape", [_in_words(each) for each in self.shapes]),
            *self._listed("type", [_in_words(each) for each in self.types]),
        )
        return self.message(
            f"`{self.file}` is not of this model: {summary}",
            *remarks,
            cure=self._cure(),
        )

    def _cure(self) -> Help:
        if moved := self._moved():
            return moved
        if self.missing or self.shapes or self.types:
            return Help("see what the model declares with", "meganeura abi MODEL")
        tops = (name.partition(".") for name in self.unexpected)
        named = ((escape(top), dot) for top, dot, _ in tops)
        globs = [*dict.fromkeys(f"{top}.*" if dot else top for top, dot in named)]
        if len(globs) > LISTED:
            globs = ["*"]
        options = [f"--allow-unexpected {quote(glob)}" for glob in globs]
        return Help("leave what belongs to other models unused with", " ".join(options))

    def _moved(self) -> Help | None:
        """Advice where most names differ by the same path in front of them."""
        here, there = set(self.missing), set(self.unexpected)
        above = _path_in_front(there, here)
        if above:
            text = f"in the file, names begin with `{above}`: take it away with"
            return Help(text, f"--rename '{re.escape(above)}(.*)=\\1'")
        below = _path_in_front(here, there)
        if below:
            count = sum(f"{below}{name}" in here for name in there)
            text = f"{count} of {len(there)} fit below `{below}`, with"
            return Help(text, f"--prefix {below}")
        return None

    def nearest(self, name: str) -> str | None:
        """The unexpected name most like a missing one, if one is like it at all."""
        near = get_close_matches(name, self.unexpected, n=1, cutoff=0.7)
        return near[0] if near else None

    def _with_nearest(self, name: str) -> str:
        near = self.nearest(name)
        return f"{name}   (the file has {near})" if near else name

    def _listed(self, title: str, lines: Sequence[str]) -> Iterator[Remark]:
        """One remark with a line for each, the first few of many."""
        shown = lines[: self.listed]
        more = [f"and {len(lines) - len(shown)} more"] if len(shown) < len(lines) else []
        if lines:
            yield Remark(title, "\n".join([*shown, *more]))


def _path_in_front(longer: AbstractSet[str], shorter: AbstractSet[str]) -> str:
    """The path that most of the longer names have in front of shorter ones; empty if none."""
    found = Counter(
        name[: -len(rest)]
        for name in longer
        for at, char in enumerate(name)
        if char == "." and (rest := name[at + 1 :]) in shorter
    )
    path, count = next(iter(found.most_common(1)), ("", 0))
    return path if count >= 2 and 2 * count > len(shorter) else ""


class NothingToAllow(Problem, code="E0541", topic="weights"):
    """A glob that should excuse missing or unexpected tensors matches none of them."""

    glob: str
    kind: str
    """`missing` or `unexpected`."""
    names: tuple[str, ...]
    """The names that are missing, or unexpected."""
    unlike: tuple[str, ...] = ()
    """Tensors the glob matches that are there, of another shape or type."""

    def report(self) -> Report:
        """Name the glob, and what it could have matched."""
        listed = ", ".join(self.names[:LISTED])
        more = f" and {len(self.names) - LISTED} more" if len(self.names) > LISTED else ""
        return self.message(
            f"no tensor that is {self.kind} matches `{self.glob}`",
            Remark(self.kind, f"{listed}{more}" if listed else "none"),
            cure=self._cure(),
        )

    def _cure(self) -> Help | None:
        if self.unlike:
            both = f"--allow-missing '{self.glob}' --allow-unexpected '{self.glob}'"
            return Help(
                f"`{self.unlike[0]}` differs in shape or type; to start it anew, allow both",
                both,
            )
        if not self.names:
            return Help(f"leave out --allow-{self.kind} '{self.glob}'")
        close = get_close_matches(self.glob, self.names, 1, cutoff=0.4)
        layer, dot, _ = (close[0] if close else self.names[0]).rpartition(".")
        meant = f"{layer}.*" if dot else self.names[0]
        return Help(f"name what is {self.kind}", f"--allow-{self.kind} '{meant}'")


# --- what a file and a model have in common ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """The tensors of a set of files compared with those a model declares."""

    file: Path
    """The file, or the first of several."""
    matched: tuple[tuple[Declared, StoredTensor], ...]
    """The tensors equal in name, shape and kind, in the order of the model."""
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    shapes: tuple[Difference, ...]
    types: tuple[Difference, ...]
    anew: tuple[str, ...]
    """Parameters that were allowed to have no value in the files."""
    unused: tuple[str, ...]
    """Tensors of the files that were allowed to be there."""
    renamed: tuple[tuple[str, str], ...] = ()
    """The tensors that have another name in the files, and then in the model."""

    @property
    def quantized(self) -> dict[str, Quantization]:
        """The levels of the parameters that are numbers of a few bits in the files."""
        return {
            each.name: tensor.quantization
            for each, tensor in self.matched
            if tensor.quantization is not None
        }

    def mismatch(self, listed: int | None = LISTED) -> WeightsMismatch | None:
        """The differences that no glob excuses, if there are any."""
        if not (self.missing or self.unexpected or self.shapes or self.types):
            return None
        return WeightsMismatch(
            self.file, self.missing, self.unexpected, self.shapes, self.types, listed
        )

    def faults(self) -> Iterator[Problem]:
        """Yields, for each tensor with values that its parameter cannot have, the first of them."""
        for each, tensor in self.matched:
            try:
                verify(tensor, each.type.dtype)
            except ProblemError as error:
                yield error.problem

    def read(self) -> dict[str, Array]:
        """The values of all parameters but those in `anew`, or none of them.

        Raises `ProblemError` with everything that does not match, or with the first value that the
        declared type cannot hold.
        """
        mismatch = self.mismatch()
        if mismatch is not None:
            raise ProblemError(mismatch)
        return {each.name: read_verified(tensor, each.type.dtype) for each, tensor in self.matched}


def compare(
    paths: Sequence[Path],
    parameters: Sequence[Declared],
    allowed: Allowed = STRICT,
    names: Names = AS_STORED,
) -> Comparison:
    """Compare the tensors of files with the parameters of a model; no value is read yet.

    The globs of `allowed` and all reports speak of the names that `names` gives. Raises
    `ProblemError` if a file cannot be read, a glob excuses nothing, or a name cannot be given.
    """
    stored = open_all(paths)
    called = names.apply(stored)
    tensors = {name: stored[original] for name, original in called.items()}
    renamed = tuple((old, name) for name, old in called.items() if old != name)
    return replace(_compared(paths[0], tensors, parameters, allowed), renamed=renamed)


def of_values(values: Mapping[str, Array], parameters: Sequence[Declared]) -> dict[str, Array]:
    """The values of a model's parameters, which may be some of many.

    Raises `ProblemError` where one is missing, or has another shape or kind.
    """
    wanted = {each.name for each in parameters}
    path = Path("the trained weights")
    tensors = {
        name: stored_array(path, name, each) for name, each in values.items() if name in wanted
    }
    return _compared(path, tensors, parameters, STRICT).read()


def _compared(
    path: Path,
    tensors: Mapping[str, StoredTensor],
    parameters: Sequence[Declared],
    allowed: Allowed,
) -> Comparison:
    declared = {each.name: each for each in parameters}
    both = [(each, tensors[name]) for name, each in declared.items() if name in tensors]
    unlike = [*_shape_differences(both), *_type_differences(both)]
    replaced = {each.name for each in unlike if _is_replaced(each.name, allowed)}
    missing = [name for name in declared if name not in tensors or name in replaced]
    unexpected = [name for name in tensors if name not in declared or name in replaced]
    differing = {each.name: None for each in unlike}
    _require_use("missing", allowed.missing, missing, differing)
    _require_use("unexpected", allowed.unexpected, unexpected, differing)
    return Comparison(
        file=path,
        matched=tuple(pair for pair in both if pair[0].name not in differing),
        missing=tuple(name for name in missing if not _matches(name, allowed.missing)),
        unexpected=tuple(name for name in unexpected if not _matches(name, allowed.unexpected)),
        shapes=tuple(each for each in _shape_differences(both) if each.name not in replaced),
        types=tuple(each for each in _type_differences(both) if each.name not in replaced),
        anew=tuple(name for name in missing if _matches(name, allowed.missing)),
        unused=tuple(name for name in unexpected if _matches(name, allowed.unexpected)),
    )


def _is_replaced(name: str, allowed: Allowed) -> bool:
    return _matches(name, allowed.missing) and _matches(name, allowed.unexpected)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _require_use(
    kind: str, globs: Iterable[str], names: Sequence[str], differing: Iterable[str]
) -> None:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            unlike = tuple(name for name in differing if fnmatchcase(name, glob))
            raise ProblemError(NothingToAllow(glob, kind, tuple(names), unlike))


Both = Iterable[tuple[Declared, StoredTensor]]


def _shape_differences(both: Both) -> Iterator[Difference]:
    for each, tensor in both:
        wanted = concrete_shape(each.type.shape)
        if tensor.shape != wanted:
            hint = transposed(tensor.shape, wanted)
            yield Difference(each.name, str(list(tensor.shape)), str(list(wanted)), hint)


def _type_differences(both: Both) -> Iterator[Difference]:
    for each, tensor in both:
        if tensor.is_float != each.type.dtype.is_float:
            yield Difference(each.name, tensor.stored, each.type.dtype.value)


def _in_words(difference: Difference) -> str:
    hint = f"   ({difference.hint})" if difference.hint else ""
    return (
        f"{difference.name}   the file has {difference.given}, the model {difference.wanted}{hint}"
    )


# --- values --------------------------------------------------------------------------------------


def initial_values(parameters: Iterable[ParameterInfo], seed: int) -> dict[str, Array]:
    """Returns the values of the parameters before any training."""
    return {
        each.name: sample(
            each.initializer, seed, each.drawn_as, concrete_shape(each.type.shape)
        ).astype(NUMPY[each.type.dtype])
        for each in parameters
    }


def write_weights(
    path: Path,
    parameters: Sequence[Declared],
    values: Mapping[str, Array],
    metadata: Mapping[str, str],
) -> None:
    """Save all parameters under their own names and in their stored types, atomically."""
    write_tensors(path, stored_values(parameters, values), metadata)


def stored_values(parameters: Sequence[Declared], values: Mapping[str, Array]) -> dict[str, Array]:
    """Returns all parameters under their own names and in their stored types."""
    return {each.name: values[each.name].astype(BITS[each.stored]) for each in parameters}
