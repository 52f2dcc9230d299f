"""Completion: what may stand at a place of a text that is being written.

The text is newer than the check and seldom well formed, so the place is judged by its line, and the
names that are known are those of the last check.
"""

import re
from collections.abc import Iterable, Iterator

from lsprotocol.types import CompletionItem, CompletionItemKind

from meganeura.language_server.analysis import Analysis, path_of
from meganeura.language_server.signature_help import open_call
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.scope.linker import Named
from meganeura_dsl.reference.library import comment_above
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.settings.choices import CHOICES, OPTIMIZER, PLUGINS
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.log_format import LogFormat
from meganeura_dsl.settings.not_finite_policy import NotFinitePolicy
from meganeura_dsl.settings.run_settings import SETTINGS
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS

_WORD = re.compile(r"[A-Za-z_]\w*")
_APPLIED = r"(?:[\w.\[\]{}]+[ ]*:[ ]*)?[A-Za-z_]\w*"
"""The pattern of what a pipe applies, with a label or without."""
_DATA = (
    'images("folder")',
    'table("rows.csv", x=["width", "height"], y="kind")',
    'text("corpus.txt", tokenizer="tokenizer.json")',
)
WORDS = {
    "data": _DATA,
    "validation": _DATA,
    "not_finite": tuple(f'"{each}"' for each in NotFinitePolicy),
    "log": tuple(f'["{each}"]' for each in LogFormat),
    "precision": tuple(
        f'"{each}"' for each in ComputePrecision if each is not ComputePrecision.F16
    ),
    "shuffle": ("true", "false"),
    "drop_last": ("true", "false"),
}
"""Values of settings, beside their example and the choices that have arguments."""


def completion(analysis: Analysis, text: str, offset: int) -> list[CompletionItem]:
    """Returns the completions at an offset of a newer text."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    before = text[:offset]
    declaration = re.split(r"^(?=\S)", before, flags=re.MULTILINE)[-1]
    if "#" in re.sub(r'"[^"]*"', "", line):
        return []
    imported = re.match(r"from\s+(?P<module>[\w.]*)(?P<names>\s+import\s.*)?", line)
    if imported is not None:
        if imported["names"] is None:
            return list(_modules(analysis))
        return list(_exported(analysis, imported["module"]))
    if re.search(r"^\s+run:", declaration, re.MULTILINE):
        setting = re.match(r"\s+(\w+)(?:\[[^\]]*\])?\s*=", line)
        if setting is not None:
            return [*_declared(analysis, setting[1]), *_values(setting[1])]
        if re.fullmatch(r"\s*\w*", line):
            return list(_settings())
    taken = re.search(r"\b([A-Za-z_]\w*)\.\w*$", line)
    results = [] if taken is None else list(_results(analysis, declaration, taken[1]))
    if results:
        return results
    call = open_call(text, offset)
    arguments = list(_arguments(analysis, call[0])) if call is not None else []
    locals_ = list(_locals(declaration, line))
    return [*arguments, *locals_, *_globals(analysis), *_keywords(line)]


def _modules(analysis: Analysis) -> Iterator[CompletionItem]:
    """The standard modules, and the files beside the document."""
    path = path_of(analysis.uri)
    beside = {each.stem for each in path.parent.glob("*.mgn") if each != path}
    for name in sorted({*standard_model_names(), *beside}):
        yield CompletionItem(name, kind=CompletionItemKind.Module)


def _exported(analysis: Analysis, module: str) -> Iterator[CompletionItem]:
    loader = analysis.loader
    source = loader(tuple(module.split("."))) if module else None
    if source is None:
        return
    for found in re.finditer(r"^(def|block|optimizer|model)\s+(\w+)", source.text, re.MULTILINE):
        yield CompletionItem(found[2], kind=_KINDS[found[1]], detail=module)


_KINDS = {
    "def": CompletionItemKind.Function,
    "block": CompletionItemKind.Class,
    "optimizer": CompletionItemKind.Class,
    "model": CompletionItemKind.Constant,
}


def _settings() -> Iterator[CompletionItem]:
    for name, setting in SETTINGS.items():
        yield CompletionItem(
            name,
            kind=CompletionItemKind.Property,
            detail=f"{name} = {setting.example}",
            documentation=setting.meaning,
            insert_text=f"{name} = ",
        )


def _declared(analysis: Analysis, setting: str) -> Iterator[CompletionItem]:
    """The optimizers of the program."""
    own = analysis.module.optimizers if setting == OPTIMIZER else {}
    for name, (_, node) in own.items():
        says = comment_above(node.span).lstrip("# ").split("\n")[0]
        yield CompletionItem(
            name, kind=CompletionItemKind.EnumMember, detail=_form(node), documentation=says
        )


def _values(setting: str) -> Iterator[CompletionItem]:
    for name, choice in CHOICES.get(setting, {}).items():
        says = (choice.__doc__ or "").strip().split("\n")[0]
        yield CompletionItem(name, kind=CompletionItemKind.EnumMember, documentation=says)
    if setting in PLUGINS:
        for name in PLUGINS[setting].names():
            owner = f"of the package {PLUGINS[setting].owner(name)}"
            yield CompletionItem(name, kind=CompletionItemKind.EnumMember, documentation=owner)
    example = (SETTINGS[setting].example,) if setting in SETTINGS else ()
    for word in dict.fromkeys((*WORDS.get(setting, ()), *example)):
        yield CompletionItem(word, kind=CompletionItemKind.Value)


def _arguments(analysis: Analysis, callee: str) -> Iterator[CompletionItem]:
    """The configuration of what is called; first in the list."""
    found = analysis.module.find(callee)
    parameters = () if found is None or isinstance(found[1], ast.Model) else found[1].parameters
    for each in parameters:
        yield CompletionItem(
            f"{each.name}=",
            kind=CompletionItemKind.Field,
            detail=each.span.text,
            sort_text=f"0{each.name}",
        )


def _results(analysis: Analysis, declaration: str, name: str) -> Iterator[CompletionItem]:
    """The named results of the block or model that a name was last bound to, with their types."""
    bound = re.findall(rf"^[ ]+{name}[ ]*=[^\n]*\|>[ ]*({_APPLIED})", declaration, re.MULTILINE)
    callee = bound[-1].rpartition(":")[2].strip() if bound else ""
    labelled = re.search(rf"\b{callee}[ ]*:[ ]*([A-Za-z_]\w*)", declaration) if callee else None
    found = analysis.module.find(callee) if callee else None
    if found is None and labelled is not None:
        found = analysis.module.find(labelled[1])
    while found is not None and isinstance(found[1], ast.Model):
        found = found[0].find(found[1].call.callee)
    if found is None or not isinstance(found[1], ast.Block):
        return
    for each in found[1].results or ():
        if each.name is not None:
            written = each.span.text.partition(":")[2].strip()
            yield CompletionItem(each.name, kind=CompletionItemKind.Field, detail=written)


def _locals(declaration: str, line: str) -> Iterator[CompletionItem]:
    """The sizes, values and labels of the declaration above, in the order of their names."""
    written = re.sub(r"#[^\n]*", "", declaration.removesuffix(line))
    head = declaration.split("\n", maxsplit=1)[0]
    labels = {each[1] for each in re.finditer(r"\|>\s*(\w+)[\w.\[\]{}]*\s*:", written)}
    names = {*_WORD.findall(written), *_WORD.findall(head)} - {*KEYWORDS} - labels
    calls = {each[1] for each in re.finditer(r"\|>\s*(?:[\w.\[\]{}]+\s*:\s*)?(\w+)", written)}
    for name in sorted(names - calls - {*BUILTINS}):
        yield CompletionItem(name, kind=CompletionItemKind.Variable, sort_text=f"1{name}")
    for name in sorted(labels):
        yield CompletionItem(
            name, kind=CompletionItemKind.Reference, detail="label", sort_text=f"2{name}"
        )


def _globals(analysis: Analysis) -> Iterator[CompletionItem]:
    """Yields the names that are declared here, imported, standard, or built in."""
    for name in dict.fromkeys(analysis.module.names()):
        found = analysis.module.find(name)
        if found is None or isinstance(found[1], ast.Optimizer):
            continue
        yield CompletionItem(
            name,
            kind=_kind(found[1]),
            detail=_form(found[1]),
            sort_text=f"{3 + found[0].is_library}{name}",
        )
    for name, builtin in BUILTINS.items():
        yield CompletionItem(
            name,
            kind=CompletionItemKind.Function,
            detail=builtin.signature,
            documentation=builtin.meaning,
            sort_text=f"4{name}",
        )


def _kind(node: ast.Def | ast.Block | ast.Model) -> CompletionItemKind:
    match node:
        case ast.Def():
            return CompletionItemKind.Function
        case ast.Block():
            return CompletionItemKind.Class
        case ast.Model():
            return CompletionItemKind.Constant


def _form(node: Named) -> str:
    given: Iterable[ast.Parameter] = () if isinstance(node, ast.Model) else node.parameters
    return f"{node.name.text}({', '.join(each.span.text for each in given)})"


def _keywords(line: str) -> Iterator[CompletionItem]:
    """Words that begin a line."""
    if re.fullmatch(r"\s*\w*", line):
        for word in sorted(each for each in KEYWORDS if each.isalpha()):
            yield CompletionItem(word, kind=CompletionItemKind.Keyword, sort_text=f"5{word}")
