"""No advice makes a wrong program pass: typical mistakes in many programs, and every fix of them.

Each mistake is planted in programs of the library and in small ones. What `check --fix`
and `check --fix --unsafe` then do is done here: nothing may be safe, and a suggested fact may bound
a size or say what divides it, and never make two sizes equal, or one a certain number.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.problem import Applicability
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models
from tests.effort import effort

FOLDER = Path(str(standard_models()))
MOST = effort(2, 3)
"""Places of a small program in which one kind of mistake is planted."""
ROUNDS = 4
"""Fixes, one after the other."""
LIBRARY = effort(("resnet", "gpt2"), ("resnet", "vit", "unet", "mobilenet_v3", "gpt2"))
"""Programs of the library with one mistake of each kind."""

SMALL = {
    "excite": """\
block SE(r)(x: [n, c, h, w]) -> [n, c, h, w]
    where c >= r:
  s = x |> mean(2, 3) |> fc1: linear(c // r) |> relu |> fc2: linear(c) |> sigmoid
  return x * expand(s, [n, c] -> [n, c, h, w])

block Net(c)(x: [n, c, h, w]) -> [n, c, h, w]
    where c >= 4:
  return x |> se: SE(4)
""",
    "attention": """\
block Attention(heads)(x: [n, s, d], seen: [n, s]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  k = x |> k: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  v = x |> v: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])
  y = softmax(q @ rearrange(k, [n, heads, s, e] -> [n, heads, e, s])) @ v
  y = y * expand(seen, [n, s] -> [n, heads, s, d // heads])
  return y |> rearrange([n, heads, s, e] -> [n, s, heads * e]) |> out: linear(d)
""",
    "residual": """\
def down(h, s) = (h - 1) // s + 1

block Residual(c, stride=1)(x: [n, k, h, w]) -> [n, c, down(h, stride), down(w, stride)]:
  y = x |> conv1: conv2d(c, 3, stride, pad=1) |> relu |> conv2: conv2d(c, 3, pad=1)
  if stride != 1 or k != c:
    x = x |> shortcut: conv2d(c, 1, stride)
  return relu(x + y)
""",
    "norm": """\
block Norm()(x: [n, v, d]) -> [n, v, d]:
  scale = sqrt(sum(x ** 2, 2))
  return x / expand(scale, [n, v] -> [n, v, d])
""",
    "unet": """\
block Up(c)(x: [n, c, h, w]) -> [n, 2 * c, h, w]
    where h >= 2, w >= 2, h % 2 == 0, w % 2 == 0:
  y = x |> max_pool(2) |> up: conv_transpose2d(c, 2, 2)
  return concat(x, y, axis=1)
""",
    "loss": """\
train fit(x: [batch, 4], y: [batch]):
  z = x |> fc: linear(1) |> rearrange([batch, 1] -> [batch])
  minimize mse(z, y)
""",
}  # fmt: skip

Mutator = Callable[[str], Iterator[str]]


def replaced(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Mutator:
    """The texts in which one place of a pattern is another."""

    def mutants(text: str) -> Iterator[str]:
        for found in re.finditer(pattern, text):
            written = found.expand(new) if isinstance(new, str) else new(found)
            if written != found[0]:
                yield text[: found.start()] + written + text[found.end() :]

    return mutants


def swapped(found: re.Match[str]) -> str:
    """A list of axes whose second and third, or whose two, are exchanged."""
    axes = [each.strip() for each in found["axes"].split(",")]
    at = 1 if len(axes) > 2 else 0
    axes[at : at + 2] = reversed(axes[at : at + 2])
    return f"{found['lead']}[{', '.join(axes)}]"


MISTAKES: dict[str, Mutator] = {
    "a rearrangement is left out": replaced(r" \|> rearrange\([^()]*\)", ""),
    "axes of an input are exchanged": replaced(
        r"(?P<lead>\w+: )\[(?P<axes>\w+(, \w+)+)\]", swapped
    ),
    "axes are moved elsewhere": replaced(r"(?P<lead>-> )\[(?P<axes>\w+(, \w+){2,})\]", swapped),
    "a reduction is over another axis": replaced(
        r"(?P<call>\b(?:mean|sum|max|softmax|variance)\([^()\n]*)(?P<axis>[1-3])\)",
        lambda found: f"{found['call']}{int(found['axis']) - 1})",
    ),
    "nothing is repeated": replaced(r"expand\((?P<value>\w+), [^()]*\)", r"\g<value>"),
    "a projection lacks a condition": replaced(
        r"\bif [^:\n]+ or (?P<last>[^:\n]+):", r"if \g<last>:"
    ),
    "a matrix is not transposed": replaced(
        r"@ rearrange\((?P<value>\w+), [^()]*\)", r"@ \g<value>"
    ),
    "a batch has a fixed size": replaced(r"(?P<lead>\w+: )\[(?:n|batch), ", r"\g<lead>[8, "),
    "a pattern names the batch by a number": replaced(r"rearrange\(\[n, ", "rearrange([16, "),
}  # fmt: skip

FACT = re.compile(r"[^=<>!]+ (?:>=|<=|!=|>|<) [^=<>!]+|[^=<>!]+ % [^=<>!]+ == 0")
"""A bound, or what divides."""


def is_bound(fact: str) -> bool:
    """True if all of a fact are bounds and divisors."""
    return all(map(FACT.fullmatch, fact.split(" and ")))


PROGRAMS = {
    **{name: (FOLDER / f"{name}.mgn").read_text(encoding="utf-8") for name in LIBRARY},
    **SMALL,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_fix_makes_a_wrong_program_pass(name: str) -> None:
    load = loader_beside(FOLDER / "x.mgn")
    refused = 0
    for mistake, mutator in MISTAKES.items():
        for text in islice(mutator(PROGRAMS[name]), MOST if name in SMALL else 1):
            source = Source("net.mgn", text)
            result = check(source, load)
            refused += not result.fine
            for _ in range(ROUNDS):
                reports = result.reports
                for report in reports:
                    kind = Applicability.NONE if report.help is None else report.help.applicability
                    assert kind is not Applicability.SAFE, (mistake, report)
                    code = "" if report.help is None else report.help.code or ""
                    if code.startswith("where "):
                        assert is_bound(code.removeprefix("where ")), (mistake, report.help)
                chosen = next_fixes(reports, source, unsafe=True)
                if not chosen:
                    break
                (fixed,) = chosen
                assert fixed.help is not None
                for edit in fixed.help.edits:
                    fact = edit.text.strip().removeprefix("where ").strip(", ")
                    assert is_bound(fact), (mistake, fixed.help.text, fact)
                source = Source("net.mgn", apply(source.text, fixed.help.edits))
                result = check(source, load)
    assert refused or name in LIBRARY


@pytest.mark.parametrize("name", SMALL)
def test_the_small_programs_are_right_as_they_are(name: str) -> None:
    result = check(Source("net.mgn", SMALL[name]), loader_beside(FOLDER / "x.mgn"))
    assert result.fine or {each.code for each in result.reports} == {"N0004"}
