"""PyTorch source as the command line names it: `model.py:Net(10, width=64)`, `x: f32[n, 3]`."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

DTYPES = {"f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "bool": "bool"}
"""PyTorch's names of the element types of examples."""
_SOURCE = re.compile(r"(.+?\.py)(?::(.*))?", re.DOTALL)
_EXAMPLE = re.compile(r"\s*(\w+)\s*:\s*(\w+)\s*\[([^\[\]]*)\]\s*")
_SIZE = re.compile(r"([A-Za-z_]\w*)\s*(?:=\s*(\d{1,9}))?|(\d{1,9})")
FIRST = (2, 3, 5, 7, 11, 13)
"""Sizes of open first axes, which are batches."""
OTHERS = 32
"""The step of the sizes of other open axes, which are often halved: 32, 64, 96 and so on."""


@dataclass(frozen=True)
class PythonSource:
    """A module in a file: a class or a function with its arguments, or an object."""

    text: str
    """All of it, as it was given."""
    path: Path
    name: str
    """The name in the file, with dots; empty if none was given."""
    is_called: bool
    """True if arguments were given, be it none."""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Example:
    """The type of an input: each size is a number, or a name that stays open."""

    name: str
    dtype: str
    sizes: tuple[int | str, ...]
    numbers: Mapping[str, int]
    """The numbers that are given for names."""


def python_source(text: str) -> PythonSource | None:
    """Returns what a text such as `model.py:Net(10)` means; None for a file of another suffix.

    Raises `ValueError` where the part behind the colon is no name and no call with literals.
    """
    found = _SOURCE.fullmatch(text)
    if found is None:
        return None
    path, asked = Path(found[1]), found[2]
    if not asked:
        return PythonSource(text, path, "", is_called=False)
    try:
        node = ast.parse(asked.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"`{asked}` is no name, and no call as `Net(10, width=64)`") from None
    if not isinstance(node, ast.Call):
        return PythonSource(text, path, _dotted(node), is_called=False)
    args = tuple(_literal(each) for each in node.args)
    kwargs = {_keyword(each): _literal(each.value) for each in node.keywords}
    return PythonSource(text, path, _dotted(node.func), is_called=True, args=args, kwargs=kwargs)


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{_dotted(node.value)}.{node.attr}"
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is not a name")


def _keyword(node: ast.keyword) -> str:
    if node.arg is None:
        raise ValueError(f"`**{ast.unparse(node.value)}` is not read; write each argument")
    return node.arg


def _literal(node: ast.expr) -> Any:  # noqa: ANN401 - any literal
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        text = ast.unparse(node)
        raise ValueError(
            f"`{text}` is not a literal; arguments are numbers, texts, lists"
        ) from None


def example(text: str) -> Example:
    """Returns what a text such as `x: f32[n, 3, h=64, w=64]` means; raises `ValueError`."""
    found = _EXAMPLE.fullmatch(text)
    if found is None:
        raise ValueError(f'`{text}` is not like "x: f32[n, 3]"')
    name, dtype, listed = found.groups()
    if dtype not in DTYPES:
        raise ValueError(f"`{dtype}` is no element type: one of {', '.join(DTYPES)}")
    sizes = list[int | str]()
    numbers = dict[str, int]()
    for each in listed.split(",") if listed.strip() else ():
        size = _SIZE.fullmatch(each.strip())
        if size is None:
            raise ValueError(f"`{each.strip()}` in `{text}` is no size: a number, `n` or `n=4`")
        called, given, number = size.groups()
        sizes.append(called or int(number))
        if given:
            numbers[called] = int(given)
    if 0 in sizes:
        raise ValueError(f"a size of 0 in `{text}`")
    return Example(name, dtype, tuple(sizes), numbers)


def numbers_of(examples: Sequence[Example]) -> dict[str, int]:
    """Returns a number for each open size: that which is given, or one of no other size.

    Raises `ValueError` for two numbers of one size, for 0 and 1, and for two examples of one input.
    """
    known = dict[str, int]()
    for each in examples:
        for name, number in each.numbers.items():
            if known.setdefault(name, number) != number:
                raise ValueError(f"`{name}` is {known[name]} and {number}")
            if number < 2:
                raise ValueError(f"`{name}={number}`: an open size is exported with 2 or more")
    names = [each.name for each in examples]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise ValueError(f"two examples of `{twice}`")
    batches = {each.sizes[0] for each in examples if each.sizes}
    first, other = iter([*FIRST, *range(17, 1000)]), count(OTHERS, OTHERS)
    open_sizes = [each for of in examples for each in of.sizes if isinstance(each, str)]
    for name in dict.fromkeys(open_sizes):
        if name not in known:
            known[name] = next(first if name in batches else other)
    return known
