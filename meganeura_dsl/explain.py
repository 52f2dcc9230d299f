"""The kinds of problems by their codes, for `meganeura explain E0301`."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from meganeura_dsl import target_problems
from meganeura_dsl.diagnostics.message_pages import message_page, message_title
from meganeura_dsl.diagnostics.problem import Problem, problems_in
from meganeura_dsl.elaborate.problems import (
    cache_problems,
    gradient_problems,
    layer_problems,
    limit_problems,
    meaning_notes,
    name_problems,
    objective_problems,
    parameter_problems,
    path_problems,
    result_problems,
    rule_problems,
    scan_problems,
    setting_problems,
    shape_problems,
    training_problems,
    value_problems,
)
from meganeura_dsl.plugins import plugin_problems
from meganeura_dsl.settings import settings_problems
from meganeura_dsl.syntax.problems import (
    grammar_problems,
    line_problems,
    text_problems,
    token_problems,
)
from meganeura_dsl.transforms.egraph import optimizer_problems

PROBLEMS = problems_in(
    text_problems,
    line_problems,
    token_problems,
    grammar_problems,
    name_problems,
    parameter_problems,
    path_problems,
    limit_problems,
    meaning_notes,
    cache_problems,
    layer_problems,
    gradient_problems,
    objective_problems,
    shape_problems,
    result_problems,
    rule_problems,
    scan_problems,
    setting_problems,
    training_problems,
    value_problems,
    target_problems,
    plugin_problems,
    settings_problems,
    optimizer_problems,
)
"""Every kind of problem the front end can report; the command line adds those of the runtime."""


class UnknownCodeError(LookupError):
    """No problem has this code; `nearest` is the code most like it."""

    def __init__(self, code: str, nearest: str) -> None:
        super().__init__(f"no message has the code `{code}`; the nearest is {nearest}")
        self.code = code
        self.nearest = nearest


def explain(code: str, problems: tuple[type[Problem], ...]) -> str:
    """The page of a code, in upper or lower case; raises `UnknownCodeError`."""
    by_code = {problem.code: problem for problem in problems}
    wanted = code.strip().upper()
    if wanted not in by_code:
        raise UnknownCodeError(code, _nearest(wanted, by_code))
    page = message_page(wanted)
    assert page is not None, f"{wanted} has no page"
    return page


def _nearest(code: str, known: Iterable[str]) -> str:
    """The likest code, if there are any among those of the same hundred: they are of one kind."""

    def likeness(other: str) -> tuple[bool, float]:
        return other[:3] == code[:3], SequenceMatcher(None, code, other).ratio()

    return max(sorted(known), key=likeness)


def overview(problems: tuple[type[Problem], ...]) -> str:
    """One line for each code: the code, its topic, and the title of its page."""
    ordered = sorted(problems, key=lambda problem: problem.code)
    widest = max(len(problem.topic) for problem in ordered)
    return "\n".join(
        f"{problem.code}  {problem.topic:<{widest}}  {message_title(problem.code)}"
        for problem in ordered
    )
