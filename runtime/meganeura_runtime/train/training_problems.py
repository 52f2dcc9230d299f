"""Problems of a run on any device, and their messages."""

import re
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class LossNotFinite(Problem, code="E0550", topic="training"):
    """The loss became infinite or NaN, and every parameter with it or soon after."""

    step: int
    loss: str
    """The loss as text; empty if it is finite and the values after the step are not."""
    first: str = ""
    """The first value that is not finite, and its step; empty if it was not found."""
    span: Span | None = None
    path: str = ""
    is_half: bool = False
    """True if products in f16 may be the cause: no value is known that is not finite in f32."""
    is_left_out: bool = False
    """True if a gradient was not finite with the least scale of the loss, and moved nothing."""

    def report(self) -> Report:
        found = (Remark("first", self.first),) if self.first else ()
        what = f"the loss is {self.loss}" if self.loss else "a parameter is no longer finite"
        if self.is_left_out:
            what = "a gradient is not finite, with a loss scale of 1,"
        return self.message(
            f"{what} at step {self.step:,}",
            *found,
            Remark("", "the last checkpoint, from before, is kept"),
            span=self.span,
            label="this is no longer finite",
            cure=self._cure(),
            path=self.path,
        )

    def _cure(self) -> Help:
        """Returns advice for the operation of that value, and on updates that spoil it."""
        if self.is_half:
            return Help(
                "products in f16 overflow where what they read is above 65,504: go on in f32",
                "--resume RUN --set precision=f32",
            )
        for ops, pattern, words in _CURES:
            found = re.search(pattern, self._written())
            if found and (not self.first or any(f"`{op}`" in self.first for op in ops)):
                operand = found.groupdict().get("x") or "x"
                return Help(
                    f"{words.format(x=operand)};\nor leave such updates out",
                    "--set not_finite=skip",
                )
        words = "try a smaller learning rate, clip the gradients, or leave such updates out"
        return Help(words, "--set clip_norm=1.0   --set not_finite=skip")

    def _written(self) -> str:
        """The text of the place; of an operator, what is on its right as well."""
        if self.span is None:
            return ""
        text, line = self.span.text, self.span.source.text[self.span.start :].partition("\n")[0]
        return text if re.search(r"\w", text) else line


_ARGUMENT = r"(?:\((?P<x>[^()]+)\))?"
_CURES = (
    (
        ("Log",),
        rf"\blog\b{_ARGUMENT}",
        "a logarithm is of what is above 0: `log(maximum({x}, 1e-6))`",
    ),
    (
        ("Log1p",),
        rf"\blog1p\b{_ARGUMENT}",
        "it is of what is above -1: `log1p(maximum({x}, -0.999999))`",
    ),
    (
        ("Sqrt", "Div"),
        rf"\bsqrt\b{_ARGUMENT}",
        "a root is of what is above 0, and its slope at 0 is infinite:\n`sqrt(maximum({x}, 1e-6))`",
    ),
    (
        ("Sqrt", "Div"),
        r"^\*\* *-?0?\.5",
        "a root is of what is above 0, and its slope at 0 is infinite:\n`maximum(x, 1e-6)` there",
    ),
    (("Div",), r"^\*\* *-", "what is raised may be 0: keep it away from there, `maximum(x, 1e-6)`"),
    (
        ("Div",),
        r"/ *(?![\d./ ])",
        "a divisor may be 0: keep it away from there, `x / (y + 1e-6)`",
    ),
    (
        ("Exp",),
        rf"\bexp\b{_ARGUMENT}",
        "a power overflows: keep its exponent small, `exp(minimum({x}, 20))`",
    ),
    (
        ("Expm1",),
        rf"\bexpm1\b{_ARGUMENT}",
        "a power overflows: keep its exponent small, `expm1(minimum({x}, 20))`",
    ),
    (("Cast",), r"\bf16\b", "f16 has no numbers above 65,504: compute this in f32"),
)
"""Advice by the operation of the value and by the text of its line."""


@dataclass(frozen=True)
class InputMismatch:
    """One input of a batch: what was given, and what the input is; empty where there is none."""

    name: str
    given: str
    wanted: str

    def said(self, train: str) -> str:
        """Returns the problem of this input as a sentence."""
        if not self.wanted:
            return f"a batch for `{train}` has `{self.name}`, which is no input"
        if not self.given:
            return f"a batch for `{train}` has no `{self.name}`, which is {self.wanted}"
        said = f"`{self.name}` of a batch for `{train}` is {self.given}, and not {self.wanted}"
        return f"{said}: it is empty" if re.search(r"\[([^]]*, )?0[],]", self.given) else said


class BatchMismatch(Problem, code="E0546", topic="training"):
    """A batch that Python gave does not fit the inputs of the `train` block."""

    train: str
    wrong: tuple[InputMismatch, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    """The sizes that are known."""
    hint: str = ""

    def report(self) -> Report:
        first, *others = [each.said(self.train) for each in self.wrong]
        remarks = [
            *(Remark("", said) for said in others),
            *(Remark("", f"{name} = {size}") for name, size in self.sizes),
        ]
        return self.message(first, *remarks, cure=self._cure())

    def _cure(self) -> Help:
        """Advice on the first input that does not fit."""
        if self.hint:
            return Help(self.hint)
        wrong = self.wrong[0]
        if not wrong.wanted:
            return Help(f"leave `{wrong.name}` out, or declare it as an input of `{self.train}`")
        if not wrong.given:
            return Help("a batch has an array for each input", f'{{"{wrong.name}": ...}}')
        named = [f"`{name}`" for name, _ in self.sizes if re.search(rf"\b{name}\b", wrong.wanted)]
        if named:
            which = " and ".join(named)
            return Help(f"a name has one size in all arrays of a batch: give as many of {which}")
        return Help(f"give `{wrong.name}` as {wrong.wanted}, or declare it as it is given")


class NoLength(Problem, code="E0548", topic="training"):
    """A schedule needs to know of a run what a trainer that is given batches does not."""

    schedule: str
    needs: str
    """`steps` or `steps_per_epoch`."""

    def report(self) -> Report:
        said = Help("say how many", f'settings={{"{self.needs}": 1000}}')
        return self.message(
            f"the schedule `{self.schedule}` depends on {self.needs.replace('_', ' ')}, "
            f"which a trainer does not know",
            cure=said,
        )


class NothingToStopBy(Problem, code="E0573", topic="training"):
    """A setting is about evaluations, and there is nothing to evaluate on."""

    setting: str

    def report(self) -> Report:
        return self.message(
            f"`{self.setting}` asks for evaluations, and the data holds no examples out",
            cure=Help("hold some out, or leave it out", f"--set {self.setting}=none"),
        )


class NothingToSample(Problem, code="E0668", topic="training"):
    """`sample_prompt` asks for a text, and nothing in the training writes one."""

    span: Span | None
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`sample_prompt` asks for a sample, and {self.reason}",
            span=self.span,
            cure=Help(
                "a sample is written on one device, by a `model` that `meganeura docs generation` "
                "describes; leave it out otherwise",
                "--set sample_prompt=none",
            ),
        )


class NoUpdate(Problem, code="E0574", topic="training"):
    """A run ends before `accumulate` batches are added up: nothing would be trained."""

    accumulate: int
    steps: int

    def report(self) -> Report:
        return self.message(
            f"`accumulate` makes one update of {self.accumulate:,} steps, "
            f"and the run has {self.steps:,}",
            cure=Help(
                "let it make more updates, or train longer", f"--set accumulate={self.steps}"
            ),
        )


class CannotResume(Problem, code="E0553", topic="training"):
    """A run cannot go on as if it had not been interrupted."""

    reason: str
    changeable: tuple[str, ...] = ()

    def report(self) -> Report:
        names = ", ".join(self.changeable)
        cure = Help(f"only these may be given anew: {names}") if names else None
        headline = f"the run cannot be resumed: {self.reason}"
        return self.message(headline, cure=cure)


class FolderInUse(Problem, code="E0555", topic="training"):
    """Another process is writing to the folder of a run."""

    folder: Path
    process: int | None
    """The process that has it; `None` if it has not said so yet."""

    def report(self) -> Report:
        who = "another process" if self.process is None else f"process {self.process}"
        return self.message(
            f"the run folder `{self.folder}` is in use by {who}",
            cure=Help("wait until it is done, or give another folder", "--out FOLDER"),
        )


class DataChanged(Problem, code="E0557", topic="training"):
    """A run cannot go on with other data than it was begun with."""

    file: Path
    changed: tuple[tuple[str, str, str], ...]
    """Names of tensors, what they were and what they are; empty where there was or is none."""

    def report(self) -> Report:
        remarks = [
            Remark(label, what or "not there")
            for name, then, now in self.changed
            for label, what in ((f"{name} was", then), ("is now", now))
        ]
        return self.message(
            f"the run cannot be resumed: `{self.file}` is not the data it was begun with",
            *remarks,
            cure=Help("name the data it was begun with, if it was moved", "--set data=FILE"),
        )


class IndivisibleBatch(Problem, code="E0567", topic="training"):
    """A batch cannot be divided evenly over the devices that are to share it."""

    size: str
    """The name of the size that counts examples; empty where none does."""
    batch: int
    devices: int
    is_last: bool = False
    """True for the last batch of an epoch."""

    def report(self) -> Report:
        which = "the last batch of an epoch has" if self.is_last else "a batch has"
        headline = (
            f"{which} {self.batch:,} example{'' if self.batch == 1 else 's'}, "
            f"which {self.devices:,} devices cannot share evenly"
        )
        return self.message(headline, cure=self._cure())

    def _cure(self) -> Help:
        if self.is_last:
            return Help("leave out the examples that fill no batch", "--set drop_last=true")
        if not self.size:
            return Help("use one device", "--set devices=1")
        near = max(1, round(self.batch / self.devices)) * self.devices
        return Help("a multiple is shared evenly", f"--set {self.size}={near}")


class UnnamedFolder(Problem, code="E0566", topic="training"):
    """A run on several hosts has no name for its folder."""

    hosts: int

    def report(self) -> Report:
        return self.message(
            f"{self.hosts} hosts train together, and the folder of the run has no name",
            cure=Help("name one that all of them reach", "--out FOLDER"),
        )


class LogRefused(Problem, code="E0622", topic="training"):
    """A library that the setting `log` asks for would not begin a log."""

    library: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.library}` does not begin a log",
            Remark("because", self.reason),
            cure=Help("without an account or a network, set", "WANDB_MODE=offline"),
        )
