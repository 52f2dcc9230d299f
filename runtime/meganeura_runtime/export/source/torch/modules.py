"""Modules that have the layers and parameters of a block: what holds each part of a path."""

import keyword
import re
from collections.abc import Sequence

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.paths import Key, path_key
from meganeura_runtime.export.source.text import PathPart
from meganeura_runtime.export.source.trace import Instance, label_of

_NUMBER = re.compile(r"\[\d+\]")


class Modules:
    """Decides for each path of a block the container of its parts: a list, a dict or a module."""

    def __init__(self, block: ast.Block, instances: Sequence[Instance]) -> None:
        self.block = block
        self.instances = instances
        self.kinds: dict[Key, str] = {}
        """`list`, `dict`, `module` or `leaf`, by the parts of a path."""
        self.late: set[Key] = set()
        """Items of lists by number, which a loop makes."""
        self._note_paths()

    def _note_paths(self) -> None:
        """Finds what holds the parts of each path: a list, a dictionary or a module."""
        written: dict[tuple[Instance, Key], set[Key]] = {}
        for node in (each for statement in self.block.body for each in walk(statement)):
            path = self._path_of(node)
            if path is None or not any(each.labels.get(node) for each in self.instances):
                continue
            key = path_key(path)
            for count in range(len(key)):
                prefixes = [
                    (instance, label.words[:count])
                    for instance in self.instances
                    for label in instance.labels.get(node, ())
                ]
                kinds = {self._kind(*each) for each in prefixes}
                kind = kinds.pop() if len(kinds) == 1 else "dict"
                known = self.kinds.get(key[:count], kind)
                if known == "leaf":  # a layer, below which there are others of this block
                    known = kind = "module"
                self.kinds[key[:count]] = kind if known == kind else "dict"
                for each in prefixes if count else ():
                    written.setdefault(each, set()).add(key[:count])
            for instance in self.instances:
                for label in instance.labels.get(node, ()):
                    written.setdefault((instance, label.words), set()).add(key)
            if self.kinds.setdefault(key, "leaf") != "leaf":
                self.kinds[key] = "module"
        for (_, words), keys in sorted(written.items(), key=lambda each: len(each[0][1])):
            if len(keys) > 1:
                self._note_late(words, keys)

    def _note_late(self, words: Key, keys: set[Key]) -> None:
        """Notes what is put into a list behind the loop that fills it: `block[0].extra`."""
        by_number = {each for each in keys if self.is_late(each)}
        by_number = by_number or {each for each in keys if _NUMBER.fullmatch(each[-1])}
        if len(keys - by_number) != 1:
            where = ".".join(words)
            raise refusal(
                f"`{self.block.name.text}`", f"`{where}` is written in several ways",
                self.block.name.span,
            )  # fmt: skip
        self.late |= by_number

    def is_late(self, key: Key) -> bool:
        """Returns True for a path below an item of a list that a loop fills."""
        return any(key[:count] in self.late for count in range(1, len(key)))

    def _path_of(self, node: ast.Node) -> ast.Path | None:
        match node:
            case ast.Call():
                path = label_of(node, self.instances[0].frame.module)
                return path if path is not None and path.parts else None
            case ast.Declare(path=path):
                return path
            case ast.Layer(call=ast.Call(label=path)):
                return path
            case _:
                return None

    def _kind(self, instance: Instance, words: Key) -> str:
        inside: list[str] = []
        for each in instance.order:
            if each[: len(words)] == words and len(each) > len(words):
                inside += [] if each[len(words)] in inside else [each[len(words)]]
        if inside == [str(at) for at in range(len(inside))]:
            return "list"
        return "dict" if any(each.isdigit() for each in inside) else "module"

    def access(self, steps: Sequence[PathPart], key: Sequence[str]) -> str:
        """The text of what a path names."""
        text = "self"
        for at, step in enumerate(steps):
            kind = self.kinds.get(tuple(key[:at]), "module")
            text = _reach(text, step, "module" if step.kind == "word" and at == 0 else kind)
        return text

    def like(self, key: Key) -> Key:
        """The key of a path that is written with other numbers."""
        for known in self.kinds:
            if len(known) == len(key) and all(
                a == b or (a[0] == "[" and b[0] == "[") for a, b in zip(known, key, strict=True)
            ):
                return known
        return key

    def known(self, key: Key) -> Key:
        """The key of the longest part of a path that is known, and the rest behind it."""
        for count in range(len(key), 0, -1):
            found = self.like(key[:count])
            if found in self.kinds:
                return (*found, *key[count:])
        return key


def _reach(text: str, step: PathPart, kind: str) -> str:
    match step.kind:
        case "index" if kind == "list":
            return f"{text}[{step.text}]"
        case "index":
            key = f'"{step.text}"' if step.text.isdigit() else f"str({step.text})"
            return f"{text}[{key}]"
        case "computed":
            return f'getattr({text}, f"{step.text}")'
        case _ if kind == "dict":
            return f'{text}["{step.text}"]'
        case _ if keyword.iskeyword(step.text):
            return f'getattr({text}, "{step.text}")'
        case _:
            return f"{text}.{step.text}"
