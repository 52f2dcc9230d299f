"""Instructions of a compiled program, read from its text: their kinds, bytes and sources.

An instruction is a line `%name = shape kind(%operand, ...), attribute=...`; a fusion names the
computation it calls, whose instructions are written the same way.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

COMPUTATION = re.compile(r"^(?:ENTRY )?%(?P<name>\S+) .*\{$")
INSTRUCTION = re.compile(
    r"^ *(?:ROOT )?%(?P<name>\S+) = (?P<shape>\(.*?\)|\S+) (?P<kind>[\w-]+)\((?P<operands>[^)]*)\)"
    r"(?P<attributes>.*)$"
)
ARRAY = re.compile(r"(?P<type>pred|bf16|[fsuc]\d+)\w*\[(?P<sizes>[\d,]*)\]")
OPERAND = re.compile(r"%([\w.-]+)")
CALLED = re.compile(r"(?:calls|to_apply)=%([\w.-]+)")
SOURCE = re.compile(r'op_name="[^"]*/%(\d+)[/"]')
PRODUCT = re.compile(r'op_name="[^"]*/%(\d+)/dot_general"')


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a compiled program."""

    name: str
    kind: str
    bytes: int
    """Bytes that the instruction reads and writes."""
    sources: tuple[int, ...]
    """Ids of the values of the graph that it computes, with those of computations it calls."""


def instructions(text: str) -> Mapping[str, Instruction]:
    """Returns the instructions of all computations of a program, by name."""
    lines = dict(_lines(text))
    sizes = {name: _bytes(line["shape"]) for _, line in lines.values() for name in (line["name"],)}
    sources, products = (_sources(lines, pattern) for pattern in (SOURCE, PRODUCT))
    found = {
        name: Instruction(
            name,
            line["kind"],
            sizes[name] + sum(sizes.get(each, 0) for each in OPERAND.findall(line["operands"])),
            sources[name],
        )
        for name, (_, line) in lines.items()
    }
    nameless = {name for name, each in found.items() if each.kind == "dot" and not each.sources}
    for reader, (_, line) in lines.items():
        # XLA rewrites a product of one row, and leaves its name to what reads it.
        rows = nameless.intersection(OPERAND.findall(line["operands"]))
        if len(rows) == 1:
            (name,) = rows
            rest = tuple(each for each in sources[reader] if each not in products[reader])
            found[name] = replace(found[name], sources=products[reader])
            found[reader] = replace(found[reader], sources=rest)
    return found


def _sources(
    lines: Mapping[str, tuple[str, re.Match[str]]], pattern: re.Pattern[str]
) -> Mapping[str, tuple[int, ...]]:
    """Returns the ids that a pattern finds in each instruction and in the computations it calls."""
    inside: dict[str, list[int]] = {}
    for computation, line in lines.values():
        inside.setdefault(computation, []).extend(map(int, pattern.findall(line["attributes"])))
    return {
        name: tuple(
            dict.fromkeys(
                [
                    *(
                        x
                        for each in CALLED.findall(line["attributes"])
                        for x in inside.get(each, ())
                    ),
                    *map(int, pattern.findall(line["attributes"])),
                ]
            )
        )
        for name, (_, line) in lines.items()
    }


def _lines(text: str) -> Iterator[tuple[str, tuple[str, re.Match[str]]]]:
    """Yields each instruction by name, with the computation it is in."""
    computation = ""
    for line in text.splitlines():
        if found := COMPUTATION.match(line):
            computation = found["name"]
        elif found := INSTRUCTION.match(line):
            yield found["name"], (computation, found)


def _bytes(shape: str) -> int:
    """Returns the size of an array, or of all arrays of a tuple, in bytes."""
    return sum(_width(each["type"]) * _count(each["sizes"]) for each in ARRAY.finditer(shape))


def _width(dtype: str) -> int:
    return 1 if dtype == "pred" else int(dtype.lstrip("bfsuc")) // 8


def _count(sizes: str) -> int:
    return prod(int(size) for size in sizes.split(",") if size)
