"""What the text of a compiled program says of its instructions: their kinds, bytes and sources.

An instruction is a line `%name = shape kind(%operand, ...), attribute=...`; a fusion names the
computation it calls, whose instructions are written the same way.
"""

import re
from collections.abc import Iterator, Mapping
from math import prod

from meganeura_dsl.startup.deferred_dataclass import dataclass

COMPUTATION = re.compile(r"^(?:ENTRY )?%(?P<name>\S+) .*\{$")
INSTRUCTION = re.compile(
    r"^ *(?:ROOT )?%(?P<name>\S+) = (?P<shape>\(.*?\)|\S+) (?P<kind>[\w-]+)\((?P<operands>[^)]*)\)"
    r"(?P<attributes>.*)$"
)
ARRAY = re.compile(r"(?P<type>pred|bf16|[fsuc]\d+)\w*\[(?P<sizes>[\d,]*)\]")
OPERAND = re.compile(r"%([\w.-]+)")
CALLED = re.compile(r"(?:calls|to_apply)=%([\w.-]+)")
SOURCE = re.compile(r'op_name="[^"]*/%(\d+)[/"]')


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a compiled program."""

    name: str
    kind: str
    bytes: int
    """What it reads and writes."""
    sources: tuple[int, ...]
    """The ids of the values of the graph that it computes, with those it calls."""


def instructions(text: str) -> Mapping[str, Instruction]:
    """The instructions of all computations of a program, by name."""
    lines = dict(_lines(text))
    sizes = {name: _bytes(line["shape"]) for _, line in lines.values() for name in (line["name"],)}
    inside: dict[str, list[int]] = {}
    for computation, line in lines.values():
        inside.setdefault(computation, []).extend(map(int, SOURCE.findall(line["attributes"])))
    return {
        name: Instruction(
            name,
            line["kind"],
            sizes[name] + sum(sizes.get(each, 0) for each in OPERAND.findall(line["operands"])),
            tuple(dict.fromkeys(_sources(line["attributes"], inside))),
        )
        for name, (_, line) in lines.items()
    }


def _lines(text: str) -> Iterator[tuple[str, tuple[str, re.Match[str]]]]:
    """Each instruction by name, with the computation it is in."""
    computation = ""
    for line in text.splitlines():
        if found := COMPUTATION.match(line):
            computation = found["name"]
        elif found := INSTRUCTION.match(line):
            yield found["name"], (computation, found)


def _sources(attributes: str, inside: Mapping[str, list[int]]) -> Iterator[int]:
    for called in CALLED.findall(attributes):
        yield from inside.get(called, ())
    yield from map(int, SOURCE.findall(attributes))


def _bytes(shape: str) -> int:
    """The bytes of an array, or of all arrays of a tuple."""
    return sum(_width(each["type"]) * _count(each["sizes"]) for each in ARRAY.finditer(shape))


def _width(dtype: str) -> int:
    return 1 if dtype == "pred" else int(dtype.lstrip("bfsuc")) // 8


def _count(sizes: str) -> int:
    return prod(int(size) for size in sizes.split(",") if size)
