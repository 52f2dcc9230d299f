"""Words in place of a setting's value: texts without quotes, and rules without brackets."""

from meganeura_dsl.diagnostics.problem import Help, Report, Severity
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.elaborate.problems.name_problems import UnknownName
from meganeura_dsl.syntax.parser.setting_errors import TEXTS

RULES = frozenset({"optimizer", "schedule"})
"""The settings that take a name with arguments in brackets."""
LISTS = frozenset({"disabled_rules", "log"})
"""The settings that take a list of texts."""
LOSSES = frozenset({"criterion", "loss", "loss_fn", "objective"})
"""Names of settings of other systems for what `minimize` says here."""
KEPT_LOGS = frozenset({"csv", "file", "json", "jsonl", "text"})
"""Logs that each run writes, as `metrics.jsonl`."""
KEPT_ANYWAY = Help("leave it out: each run writes `metrics.jsonl` in its folder")
"""The cure of a setting that asks for one of them."""


def as_written(setting: str, word: str) -> str | None:
    """Returns the value that a word alone stands for in a setting; `None` of a number."""
    if setting in TEXTS:
        return f'"{word}"'
    if setting in RULES:
        return f"{word.lower()}()"
    return f'["{word}"]' if setting in LISTS else None


class UnquotedSetting(UnknownName):
    """The value of a setting is a word that nothing defines, or the name of a function."""

    kind: str = ""
    nearest: tuple[str, ...] = ()
    setting: str = ""
    """Its key, with the paths it is for."""
    value: str = ""
    """The value that the word stands for."""

    def report(self) -> Report:
        if self.setting == "log" and self.name.lower() in KEPT_LOGS:
            return self.words(f"there is no log `{self.name}` to add", cure=KEPT_ANYWAY)
        takes = "a name with its arguments" if self.value.endswith(")") else "a text in quotes"
        return self.words(
            f"nothing here is called `{self.name}`",
            f"`{self.setting}` takes {takes}",
            cure=Help("write it so", f"{self.setting} = {self.value}"),
        )


class NeverWarm(LocatedProblem, code="N0018", topic="setting", severity=Severity.NOTE):
    """The warmup of a schedule is as long as the run, so the learning rate is never reached."""

    warmup: int
    steps: int

    def report(self) -> Report:
        """The report of both numbers."""
        reached = f"the last of {self.steps} steps has {self.steps} / {self.warmup} of it"
        return self.words(
            "this run ends before its learning rate is reached",
            reached,
            cure=Help("warm up for a part of the run", f"warmup={max(1, self.steps // 10)}"),
        )
