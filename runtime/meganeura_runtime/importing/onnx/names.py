"""Names of ONNX as names of the language: paths of parameters, names of values and of sizes."""

import re
from collections.abc import Collection, Iterable

from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.builtins.initial_values import WORDS as INITIAL_VALUES
from meganeura_dsl.elaborate.scope.linker import library
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS, RESERVED
from meganeura_runtime.importing.onnx.code import Tensor, Words

_UNFIT = re.compile(r"\W+", re.ASCII)
LONGEST = 60
"""Characters of a name."""


def library_names() -> frozenset[str]:
    """Returns the names that the library declares, which no value should hide."""
    return frozenset(name for module in library() for name in module.own)


def identifier(text: str, default: str, reserved: Collection[str] = KEYWORDS) -> str:
    """A name of the language that is like a text."""
    name = _UNFIT.sub("_", text).strip("_")[:LONGEST].strip("_")
    if not name:
        return default
    if name[0].isdigit():
        name = f"{default}{name}"
    return f"{name}_" if name in reserved else name


class Names:
    """Names that are given once each."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = {*taken, *BUILTINS, *library_names(), "training"}

    def give(self, text: str, default: str) -> str:
        """A name like a text that nothing else has."""
        base = identifier(text, default)
        name, number = base, 2
        while name in self.taken:
            name, number = (
                f"{base}{number}" if not base[-1].isdigit() else f"{base}_{number}",
                number + 1,
            )
        self.taken.add(name)
        return name


class Paths:
    """The paths of parameters, each once; those of initializers are like their names."""

    def __init__(self, apart: Collection[Words] = ()) -> None:
        self.written: dict[Words, Tensor] = {}
        """The parameters that are declared on their own lines."""
        self.above: set[Words] = set()
        """The paths above the initializers of the file."""
        self.apart = apart
        """The paths at which no layer may be: others than its parameters lie below them."""
        self._layers: set[Words] = set()
        self._wanted_above: set[Words] = set()
        self._of: dict[str, Words] = {}
        self._taken: set[Words] = {(word,) for word in INITIAL_VALUES}  # parameters start from them
        self._above_taken: set[Words] = set()
        self._counts: dict[str, int] = {}

    def reserve(self, initializer: str) -> None:
        """Say that the file has an initializer."""
        self.above.update(_above(path_words(initializer)))

    def of(self, initializer: str) -> Words:
        """The path of an initializer."""
        if initializer not in self._of:
            words = path_words(initializer)
            self._wanted_above.update(_above(words))
            self._of[initializer] = self._free(words)
        return self._of[initializer]

    def fresh(self, word: str) -> Words:
        """A path that nothing has."""
        while True:
            self._counts[word] = self._counts.get(word, 0) + 1
            words: Words = (f"{word}{self._counts[word]}",)
            if self.is_free(words):
                return self._free(words)

    def beside(self, words: Words) -> Words:
        """A path like another, for the infinities of what is there."""
        *above, last = words
        return self._free((*above, f"{last}_infinite"))

    def layer(self, words: Words) -> Words:
        """A path for a layer, whose parameters lie below it."""
        self._layers.add(words)
        self._wanted_above.update(_above(words))
        return self._free(words)

    @property
    def crowded(self) -> frozenset[Words]:
        """The paths of layers below which other initializers or layers would lie by their names."""
        return frozenset(self._layers & self._wanted_above)

    def is_free(self, words: Words) -> bool:
        """True if nothing lies at a path, above it or below it."""
        is_below = any(each in self._taken for each in _above(words))
        return not is_below and words not in self._taken and words not in self._above_taken

    def _free(self, words: Words) -> Words:
        found, number = words, 2
        while not self.is_free(found):
            lengths = (len(each) for each in _above(words) if each in self._taken)
            at = min(lengths, default=len(words)) - 1
            found, number = _numbered(words, at, number), number + 1
        self._taken.add(found)
        self._above_taken.update(_above(found))
        return found


def _above(words: Words) -> list[Words]:
    """The paths that a path lies below."""
    return [words[:length] for length in range(1, len(words))]


def _numbered(words: Words, at: int, number: int) -> Words:
    """A path with a number behind its last name up to a place."""
    while at >= 0 and isinstance(words[at], int):
        at -= 1
    if at < 0:
        return (f"p_{number}", *words)
    return (*words[:at], f"{words[at]}_{number}", *words[at + 1 :])


def scope_of(node: str) -> str:
    """The module of a node that is named after it: `/layer1/layer1.0/conv1/Conv`, or empty."""
    *modules, _ = node.strip("/").split("/")
    found = ""
    for each in modules:
        found = each if not found or each.startswith(f"{found}.") else f"{found}.{each}"
    return found


def path_words(name: str, *, is_label: bool = False) -> Words:
    """The name of an initializer as a path: `layer.0.weight` is ("layer", 0, "weight").

    A label may begin and end with an index; a parameter that expressions name may not.
    """
    words: list[str | int] = []
    for part in re.split(r"[./]+|::", name):
        if part.isdecimal() and (words or is_label) and len(part) < 10:
            words.append(int(part))
        elif part:
            words.append(identifier(part, "p", RESERVED))
    if not words:
        return ("p",)
    if isinstance(words[-1], int) and not is_label:
        first = max(at for at, word in enumerate(words) if isinstance(word, str))
        words[first:] = ["_".join(map(str, words[first:]))]
    return tuple(words)
