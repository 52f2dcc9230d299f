"""Hover: the type of a value, whether its block is proved, facts, parameters, and pages."""

import re
from collections.abc import Iterator

from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position

from meganeura.language_server.analysis import Analysis
from meganeura.language_server.diagnostics import message, span_of
from meganeura.language_server.mentions import Mention, Role, declared, mention_at
from meganeura.language_server.proofs import proof_status
from meganeura_dsl.elaborate.scope.linker import Named
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.reference.library import comment_above, signature_of
from meganeura_dsl.reference.lookup import entries_of
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

MOST_PARAMETERS = 8
"""The most rows of a list of parameters; of the others, the number is shown."""


def hover(analysis: Analysis, position: Position) -> Hover | None:
    """Returns the hover text for a position, most particular first."""
    offset = analysis.offset(position)
    mention = mention_at(analysis, offset)
    parts = [*_problems(analysis, offset), *_values(analysis, offset)]
    if mention is not None:
        parts += _named(analysis, mention)
    parts += _parameters(analysis, offset)
    if mention is not None and mention.role in (Role.LOCAL, Role.PARAMETER, Role.LABEL):
        parts += _facts(mention)
    if not parts:
        return None
    shown = None if mention is None else analysis.range(mention.span)
    return Hover(MarkupContent(MarkupKind.Markdown, "\n\n---\n\n".join(parts)), shown)


def _problems(analysis: Analysis, offset: int) -> Iterator[str]:
    """Yields the problems at an offset, with the sizes that show them."""
    for report in analysis.reports:
        span = span_of(report, analysis)
        if report.label is not None and span.start <= offset <= span.end:
            yield _code(f"{report.severity.value}[{report.code}]: {message(report, analysis)}", "")


def _values(analysis: Analysis, offset: int) -> Iterator[str]:
    """The type of the innermost value whose text is here; of several results, that of each."""
    at = [each for each in analysis.result.values if each.span.start <= offset <= each.span.end]
    if at:
        shortest = min(each.span.end - each.span.start for each in at)
        inner = [each for each in at if each.span.end - each.span.start == shortest]
        yield _code("\n".join(f"{each.name}: {each.type}" for each in inner))


def _named(analysis: Analysis, mention: Mention) -> Iterator[str]:
    found = declared(analysis, mention)
    if found is not None and mention.role is Role.GLOBAL:
        module, node = found
        yield _declaration(node)
        status = proof_status(analysis, module, node)
        if status:
            yield status
        return
    if found is not None:
        parameters = getattr(found[1], "parameters", ())
        yield from (_code(each.span.text) for each in parameters if each.name == mention.name)
        return
    if mention.role is Role.PARAMETER and isinstance(
        mention.owner, ast.Block | ast.Optimizer | ast.Def
    ):
        parameters = mention.owner.parameters
        yield from (_code(each.span.text) for each in parameters if each.name == mention.name)
    if isinstance(mention.owner, ast.Block | ast.Optimizer | ast.Train):
        inputs = mention.owner.inputs
        yield from (_code(each.span.text) for each in inputs if each.name == mention.name)
    if mention.role in (Role.GLOBAL, Role.SETTING):
        yield from (entry.text for entry in entries_of(mention.name))


def _declaration(node: Named) -> str:
    """The head of a declaration, below the comment that stands above it."""
    is_block = isinstance(node, ast.Block | ast.Optimizer)
    head = signature_of(node) if is_block else node.span.text.strip()
    return _code(comment_above(node.span) + head)


def _parameters(analysis: Analysis, offset: int) -> Iterator[str]:
    """The tensors of a checkpoint that are made here, by their names in each model."""
    for name, node in analysis.module.models.items():
        if node.name.span.start <= offset <= node.name.span.end:
            found = analysis.result.elaborations.get(name)
            if found is not None:
                yield _listed(f"In the checkpoint of `{name}`", found.parameters)
            return
    stages = [
        (node.layer, declaration)
        for declaration in analysis.declarations
        for node in walk(declaration)
        if isinstance(node, ast.Pipe)
        if node.layer.span.start <= offset <= node.layer.span.end
    ]
    if not stages:
        return
    stage, owner = min(stages, key=lambda each: each[0].span.end - each[0].span.start)
    if stage.label is None or not stage.label.parts:
        return
    key = _key(stage.label.span.text)
    for name, elaboration in analysis.result.elaborations.items():
        made = tuple(each for each in elaboration.parameters if key.search(each.name))
        if made and owner in elaboration.blocks:
            yield _listed(f"Under this label in the checkpoint of `{name}`", made)
            return


def _key(label: str) -> re.Pattern[str]:
    """Finds a label within the keys of a checkpoint; an index is any number, a splice any word."""
    parts: list[str] = []
    for index, splice, word in re.findall(r"(\[[^\]]*\])|(\{[^}]*\})|([^\[{]+)", label):
        if index:
            inside = index[1:-1].strip()
            parts.append(rf"\.{inside if inside.isdecimal() else '[0-9]+'}")
        else:
            parts.append(r"\w+" if splice else re.escape("".join(word.split())))
    return re.compile(rf"(?:^|\.){''.join(parts).removeprefix(chr(92) + '.')}\.")


def _listed(title: str, parameters: tuple[ParameterInfo, ...]) -> str:
    rows = [f"{each.name}: {each.type}" for each in parameters[:MOST_PARAMETERS]]
    more = len(parameters) - len(rows)
    rows += [f"and {more} more"] if more else []
    return f"{title}:\n\n{_code(chr(10).join(rows), '')}"


def _facts(mention: Mention) -> Iterator[str]:
    """Yields the facts about sizes here: the clauses of `where`, and the sides of choices."""
    owner, offset = mention.owner, mention.span.start
    has_facts = isinstance(owner, ast.Block | ast.Optimizer | ast.Train)
    stated = list(owner.where) if has_facts else []
    facts = [each.span.text for each in stated]
    for node in walk(owner):
        if isinstance(node, ast.If) and node.span.start <= offset < node.span.end:
            condition = node.condition.span.text
            if any(each.span.start <= offset < each.span.end for each in node.then):
                facts.append(condition)
            elif any(each.span.start <= offset < each.span.end for each in node.otherwise):
                facts.append(f"not ({condition})")
    if facts:
        yield "Known here: " + ", ".join(f"`{' '.join(each.split())}`" for each in facts)


def _code(text: str, language: str = "mgn") -> str:
    return f"```{language}\n{text.strip()}\n```"
