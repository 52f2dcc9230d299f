"""Programs in other words: each block with other names for its sizes, tensors and indices.

What a block calls its sizes is its own affair. So no choice of names changes whether it is proved,
nor what it makes; names that a proof makes up itself, and those of other blocks, are the likeliest
to do so.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.scope.linker import library
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import CheckResult
from meganeura_dsl.symbolic.size import Size, evaluate
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import parse

MADE_UP = (
    "at0", "at1", "at2", "at3", "i", "j", "k", "n", "p", "c", "d", "h", "w", "q", "s",
    "s0", "s1", "b0", "b1", "n0", "n1", "batch0", "batch1", "training0", "output0",
)  # fmt: skip
"""Names that proofs make up, and such as blocks have anyway."""
_WORD = re.compile(r'"[^"\n]*"|#[^\n]*|[A-Za-z_]\w*')


@dataclass(frozen=True)
class Renaming:
    """A block's lines, and the new name for each old one; those of rests are numbered in types."""

    lines: range
    names: Mapping[str, str]
    rests: frozenset[str]
    tensors: frozenset[str]
    """The old names of inputs, which are in no type."""

    def old(self, symbol: str) -> str:
        """Returns the earlier name of a type's symbol, without its marks."""
        name = symbol.rstrip("'")
        back = {new: old for old, new in self.names.items() if old not in self.tensors}
        changed = _WORD.sub(lambda word: back.get(word[0], word[0]), name)
        plain = changed if changed != name else None
        of_rest = f"{back.get(name[:-1])}{name[-1]}" if back.get(name[:-1]) in self.rests else None
        either = (of_rest, plain) if symbol != name else (plain, of_rest)
        return next((each for each in either if each is not None), name)


def renamed(text: str, random: Random) -> tuple[str, tuple[Renaming, ...]]:
    """The text with other names in its blocks, and what they were."""
    tree = parse(Source("random.mgn", text), Sink())
    blocks = [each for each in tree.declarations if isinstance(each, ast.Block)]
    fixed = {*BUILTINS, *(name for module in library() for name in module.own)}
    fixed |= {name for each in tree.declarations for name in _fixed(each)}
    bound = {block: set(_bound(block)) - fixed for block in blocks}
    own = {of: sorted(each for each in names if each[0] != "_") for of, names in bound.items()}
    pool = sorted({*MADE_UP, *(name for names in own.values() for name in names)})
    renamings: list[Renaming] = []
    for block in reversed(blocks):
        start, end = block.span.start, block.span.end
        words = {each for each in _WORD.findall(text[start:end]) if each[0] not in '"#'}
        free = [each for each in pool if each not in fixed and each not in words - {*own[block]}]
        names = dict(zip(own[block], random.sample(free, len(own[block])), strict=True))
        first = text.count("\n", 0, start) + 1
        lines = range(first, first + text.count("\n", start, end) + 1)
        entries = [entry for item in block.inputs for entry in item.type.shape.entries]
        rests = frozenset(each.name for each in entries if isinstance(each, ast.Rest))
        tensors = frozenset(each.name for each in block.inputs)
        renamings.append(Renaming(lines, names, rests, tensors))
        body = _WORD.sub(lambda word, names=names: names.get(word[0], word[0]), text[start:end])
        text = text[:start] + body + text[end:]
    return text, tuple(renamings)


def _fixed(declaration: ast.Node) -> Iterator[str]:
    """Names that mean something outside of a block: of declarations, arguments and weights."""
    if isinstance(declaration, ast.Import):
        yield from (each.text for each in declaration.names)
    elif isinstance(declaration, ast.Block | ast.Model | ast.Def | ast.Train):
        yield declaration.name.text
    for node in walk(declaration):
        match node:
            case ast.Argument(name=str() as name) | ast.Call(callee=name):
                yield name
            case ast.Path(parts=parts):
                yield from (each for each in parts if isinstance(each, str))
            case ast.Declare(name=ast.Name(text=name)):
                yield name
            case ast.BlockKind(header=ast.Block() as header):
                yield from _bound(header)
            case _:
                pass


def _bound(block: ast.Block) -> Iterator[str]:
    """The names of a block that are its own."""
    yield from (each.name for each in (*block.parameters, *block.inputs))
    for item in block.inputs:
        yield from _in_pattern(item.type.shape)
    for node in (each for statement in block.body for each in walk(statement)):
        match node:
            case ast.For(variable=name) | ast.Scan(variable=name):
                yield name.text
            case ast.Bind(targets=targets):
                yield from (each.text for each in targets)
            case ast.Part(target=target):
                yield target.text
            case ast.Rearrangement(source=source, target=target):
                yield from (*_in_pattern(source), *_in_pattern(target))
            case _:
                pass


def _in_pattern(pattern: ast.Pattern) -> Iterator[str]:
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            yield entry.name
        else:
            yield from (each.text for each in walk(entry) if isinstance(each, ast.Name))


def require_same(text: str, random: Random) -> CheckResult:
    """Returns the check of a text, after testing that other names change nothing of it."""
    other, renamings = renamed(text, random)
    before, after = (
        pipeline.check(Source("random.mgn", each), lambda _: None) for each in (text, other)
    )
    said = [sorted(report.code for report in each.reports) for each in (before, after)]
    judged = [(each.proved, codes) for each, codes in zip((before, after), said, strict=True)]
    assert judged[0] == judged[1], f"{judged[0]} became {judged[1]}:\n{other}"
    types = {_key(line, name, renamings): of for (line, name), of in before.types.items()}
    assert types.keys() == after.types.keys(), f"{types.keys() ^ after.types.keys()}:\n{other}"
    for key, of in after.types.items():
        own = next((each for each in renamings if key[0] in each.lines), None)
        assert _is_same(types[key], of, own), f"{key}: {types[key]} became {of}:\n{other}"
    return before


def _key(line: int, name: str, renamings: tuple[Renaming, ...]) -> tuple[int, str]:
    own = next((each for each in renamings if line in each.lines), None)
    if own is None:
        return line, name
    return line, _WORD.sub(lambda word: own.names.get(word[0], word[0]), name)


def _is_same(before: TensorType, after: TensorType, own: Renaming | None) -> bool:
    if before.dtype is not after.dtype or before.rank != after.rank:
        return False
    pairs = zip(before.shape, after.shape, strict=True)
    return all(
        _value(left, seed, None) == _value(right, seed, own)
        for left, right in pairs
        for seed in range(3)
    )


def _value(size: Size, seed: int, own: Renaming | None) -> int:
    """The size for numbers that follow from the old names."""
    if isinstance(size, int):
        return size
    names = size.variables()
    old = {name: name.rstrip("'") if own is None else own.old(name) for name in names}
    numbers = {name: Random(f"{seed} {each}").randint(20, 60) for name, each in old.items()}
    return evaluate(size, numbers)
