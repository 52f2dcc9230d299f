"""Answers to names that PyTorch, NumPy and Keras have and this language does not."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from meganeura_dsl.diagnostics.other_name_forms import FORMS
from meganeura_dsl.diagnostics.other_name_words import WARNINGS, WORDS
from meganeura_dsl.diagnostics.problem import Help


@dataclass(frozen=True)
class Form:
    """Code of this language, and the call of another system that it is equal to."""

    code: str
    call: str


@dataclass(frozen=True)
class Answer:
    """The answer to a name of another system: words, forms or both."""

    words: str
    forms: tuple[Form, ...]

    def help(self) -> Help:
        """The advice of a message: its code has beside each form what it stands for."""
        if not self.forms:
            return Help(self.words)
        wide = max(len(form.code.split("\n")[-1]) for form in self.forms)
        lines: list[str] = []
        for form in self.forms:
            *first, last = form.code.split("\n")
            lines += [*first, f"{last:{wide}}    # {form.call}"]
        return Help(self.words or "here it is", "\n".join(lines))


@cache
def other_names() -> Mapping[str, Answer]:
    """The answer to each name of another system."""
    forms: dict[str, list[Form]] = {}
    for code, calls in FORMS.items():
        for name, call in calls.items():
            forms.setdefault(name, []).append(Form(code, call))
    words = {**_by_name(WORDS), **_by_name(WARNINGS)}
    return {
        name: Answer(words.get(name, ""), tuple(forms.get(name, ()))) for name in {**forms, **words}
    }


def _by_name(words: Mapping[str, str]) -> dict[str, str]:
    return {name: text for text, names in words.items() for name in names.split()}
