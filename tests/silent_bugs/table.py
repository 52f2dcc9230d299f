"""All cases, what has no form, and the tables of docs/yardsticks.md."""

from collections.abc import Iterator, Mapping

from tests.silent_bugs import memory, rewriting, training, values, zoo
from tests.silent_bugs.case import Case

COMPILERS = (*rewriting.CASES, *memory.CASES, *values.CASES, *training.CASES)
ZOO = zoo.CASES
ZOO_ELSEWHERE: Mapping[str, str] = {
    "CompilerBoundary": "every case here, as it stands and optimized",
    "ShapeAndBroadcast": "a row is not stretched into a matrix: E0301, before anything runs",
    "TokenizerBoundary": "a token that has no row is refused on every device: E0537",
}
"""Families whose contract is a refusal, or the sum of all cases."""
NO_FORM: Mapping[str, str] = {
    "pytorch 198095, 93363, 139789": "inputs that share memory and are written to: nothing is",
    "pytorch 197091, 198155": "element types that are promoted: every conversion is written down",
    "pytorch 178013": "whole numbers divided by 0: they are divided by sizes, which are from 1 on",
    "pytorch 96296, 148545": "a kernel that is used again for other sizes: each size has its plan",
    "pytorch 189801": "numbers below 1.2e-38, which may be flushed to 0",
    "pytorch 174172": "`copysign`: the sign of a zero cannot be asked for",
}
"""Mistakes that no program can show, by their source, and the reason."""


def tables() -> Iterator[str]:
    """Lines of Markdown."""
    yield "| program | source | the mistake |"
    yield "|---|---|---|"
    yield from (_row(case) for case in COMPILERS)
    yield ""
    yield "| no form | why |"
    yield "|---|---|"
    yield from (f"| {source} | {reason} |" for source, reason in NO_FORM.items())
    yield ""
    yield "| program | family | the mistake |"
    yield "|---|---|---|"
    yield from (_row(case) for case in ZOO)
    yield from (f"|  | {family} | {how} |" for family, how in ZOO_ELSEWHERE.items())


def _row(case: Case) -> str:
    loose = "".join(
        f"; not promised {'once ' if place == 'optimized' else 'on '}{place}: {reason}"
        for place, reason in case.not_promised.items()
    )
    return f"| {case} | {case.source} | {case.mistake}{loose} |"
