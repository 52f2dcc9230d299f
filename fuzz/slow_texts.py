"""Look for short texts that take long: `python -m fuzz.slow_texts SECONDS [FIRST_SEED]`.

Each text has at most 4 KB. It is a program of the standard library or of the documentation in which
spans were repeated, nested in themselves or replaced by larger ones, since what is short and slow
is deep or doubles. Each is checked, its messages are drawn and it is formatted. Whatever takes more
than 5 s is printed; the exit code says whether there was any.
"""

import re
import signal
import sys
import time
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

from fuzz.readers import read_program
from meganeura_dsl.resources import standard_models

SPEC = Path(__file__).resolve().parents[1] / "tests" / "spec"
LONGEST = 4096
"""Bytes of a text."""
BAR = 5.0
"""Seconds of the processor that a text may take."""
HOPELESS = 60
"""Seconds after which a text is given up."""
OPENING, CLOSING = "([{", ")]}"
NUMBERS = ("0", "1", "2", "3", "7", "64", "1000", "99999", "4294967296", "9" * 40)
SIZES = (
    "n",
    "h // 2",
    "(h + 1) // 2",
    "h % 3",
    "h * w",
    "(h + w) * (h - w)",
    "n // h // w",
    "h**3",
)
FACTS = (
    "h % 2 == 0",
    "h >= w",
    "n // 3 == h // 3",
    "h * w == n",
    "h > 0",
    "not h == w",
    "h % w == 0",
)


class SlowError(Exception):
    """A text took so long that it was given up."""


def main() -> int:
    """Try texts until the time is over."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    signal.signal(signal.SIGALRM, _give_up)
    slow, slowest, first, end = 0, (0.0, -1), seed, time.monotonic() + seconds
    while time.monotonic() < end:
        text = make(seed)
        taken, failure = measure(text)
        slowest = max(slowest, (taken, seed))
        if failure is not None or taken > BAR:
            slow += 1
            print(f"seed {seed}: {taken:.1f} s, {failure}\n{text}\n{'-' * 40}", flush=True)
        seed += 1
    print(f"{seed - first:,} texts, {slow} slow or failed, slowest {slowest}")
    return 1 if slow else 0


def measure(text: str) -> tuple[float, str | None]:
    """Seconds of the processor that a text takes, and what escaped from its reader."""
    failure = None
    started = time.process_time()
    signal.alarm(HOPELESS)
    try:
        read_program(text.encode())
    except Exception as error:  # noqa: BLE001 - whatever escapes is what is looked for
        failure = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    return time.process_time() - started, failure


def make(seed: int) -> str:
    """A text of at most 4 KB, determined by its seed."""
    random = Random(seed)
    texts = programs()
    text = random.choice(texts)
    for _ in range(random.randint(1, 6)):
        text = _grow(random, text, texts)
        if len(text.encode()) > LONGEST:
            break
    return text.encode()[:LONGEST].decode(errors="ignore")


@cache
def programs() -> tuple[str, ...]:
    """The texts to begin with: short programs, declarations alone, examples of the pages."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(SPEC.rglob("*.md"))]
    examples = [
        text for page in pages for text in re.findall(r"```mgn.*?\n(.*?)```", page, re.DOTALL)
    ]
    models = [path.read_text(encoding="utf-8") for path in sorted(standard_models().glob("*.mgn"))]
    pieces = [f"{piece.strip()}\n" for text in models for piece in text.split("\n\n")]
    return tuple(text for text in (*examples, *models, *pieces) if 20 < len(text) <= LONGEST)


def _grow(random: Random, text: str, texts: tuple[str, ...]) -> str:
    lines = text.splitlines(keepends=True)
    at = random.randrange(len(lines))
    count = random.choice((2, 4, 8, 16, 32, 64))
    match random.randint(0, 9):
        case 0:  # a line again and again
            lines[at] *= count
            return "".join(lines)
        case 1:  # several lines again and again
            end = at + random.randint(1, 6)
            return "".join([*lines[:at], *(lines[at:end] * count), *lines[end:]])
        case 2:  # what is in brackets, within itself
            return _nest(random, text, count)
        case 3:  # an operand, as a long chain of itself
            return _chain(random, text, count)
        case 4:
            return _replace(random, text, r"\b\d+\b", random.choice(NUMBERS))
        case 5:
            return _replace(random, text, r"(?<=[\[,(])\s*[a-z]\w*(?=[\],)])", random.choice(SIZES))
        case 6:  # facts
            facts = ", ".join(random.choice(FACTS) for _ in range(count))
            return _replace(random, text, r"where\b", f"where {facts},")
        case 7:  # a size by one that holds it twice
            return _replace(
                random,
                text,
                r"\b[a-z]\b",
                random.choice(("({0} // 2 + {0} % 2)", "({0} * {0})", "(({0} + 1) // 2)")),
            )
        case 8:
            other = random.choice(texts)
            return text + "\n" + other
        case _:
            words = re.findall(r"\w+", random.choice(texts))
            return _replace(random, text, r"\b[a-z_]\w*\b", random.choice(words))


def _replace(random: Random, text: str, pattern: str, new: str) -> str:
    found = list(re.finditer(pattern, text))
    for match in reversed(random.sample(found, min(len(found), random.choice((1, 1, 3, 20))))):
        word = new.replace("{0}", match.group())
        text = text[: match.start()] + word + text[match.end() :]
    return text


def _nest(random: Random, text: str, count: int) -> str:
    found = [place for place, letter in enumerate(text) if letter in OPENING]
    if not found:
        return text
    start = random.choice(found)
    depth, end = 0, start
    for end in range(start, len(text)):
        depth += (text[end] in OPENING) - (text[end] in CLOSING)
        if depth == 0:
            break
    inner = re.search(r"\w+", text[start:end])
    if inner is None:
        return text
    head, tail = text[start : start + inner.start()], text[start + inner.end() : end + 1]
    name = re.search(r"\w*$", text[:start])
    head = (name.group() if name else "") + head
    return (
        text[: start + inner.start()]
        + head * count
        + inner.group()
        + tail * count
        + text[start + inner.end() :]
    )


def _chain(random: Random, text: str, count: int) -> str:
    found = list(re.finditer(r"\b[a-z_]\w*(?:\([^()]*\))?", text))
    if not found:
        return text
    match = random.choice(found)
    operator = random.choice((" + ", " * ", " // ", " % ", " - ", " |> ", " and ", " == ", ", "))
    return text[: match.start()] + operator.join([match.group()] * count) + text[match.end() :]


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise SlowError(f"given up after {HOPELESS} s")


if __name__ == "__main__":
    sys.exit(main())
