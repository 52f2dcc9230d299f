"""Shape bugs of public collections, each as a wrong and a right program, and what is said of them.

A folder of a collection has a case: `wrong.mgn`, whose line of the mistake ends with `# mistake`,
and `right.mgn`, alone if the collection has a right program only. Comments at the head of
`wrong.mgn` say where it is from, and what the first help has to name, `# cure: A or B`. Where the
mistake is in the data, `# fed: x f32[10, 19], y i64[10]` describes it, and `# named: y` the input
that the message has to name. Where two edits are as sensible and the program does not tell which is
meant, `# unknown: ...` says why, and `# asked: ...` what the first help has to ask for then.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.report import Report, Severity
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check_file, elaborate_model, load
from meganeura_dsl.program import Program
from meganeura_runtime.infer.feeds import as_tensors, feeds
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.train.data.run_data import PythonData, dataset_of
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.step_graphs import TrainSignature

FOLDER = Path(__file__).parent
COLLECTIONS = ("tensorflow_program_bugs", "pytea", "sfdata", "others")
HEAD = re.compile(r"^# (fed|named|cure|unknown|asked): (.*)$", re.MULTILINE)
TENSOR = re.compile(r"(\w+) ([a-z]\d+)\[([\d, ]*)\]")
KINDS = {"f": "float", "i": "int", "u": "uint"}

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A mistake and its mend, by the folder of the two programs."""

    folder: Path

    def __str__(self) -> str:
        return f"{self.collection}/{self.folder.name}"

    @property
    def collection(self) -> str:
        return self.folder.parent.name

    @property
    def wrong(self) -> Path:
        return self.folder / "wrong.mgn"

    @property
    def right(self) -> Path:
        return self.folder / "right.mgn"

    @property
    def is_right_alone(self) -> bool:
        """True if there is no wrong program."""
        return not self.wrong.exists()

    @property
    def is_fed(self) -> bool:
        """True if the mistake is one of the data, which a run or a training has to say."""
        return "fed" in heads(self.right)


@dataclass(frozen=True)
class Outcome:
    """The answers to the programs of a case."""

    case: str
    code: str
    """The code of the message; `silent` if there is none, `-` if there is no wrong program."""
    place: str
    """`there` if the message is at the line of the mistake, or names the input; else its place."""
    cure: str
    """`right` if the first help names the expected cure, `other` if it does not, or `none`.

    `asked` if it asks for what only the author knows, where a case says what that is.
    """
    right: str
    """`accepted` if the right program and its data are, else the code of the message."""

    def __str__(self) -> str:
        return f"{self.case}, {self.code}, {self.place}, {self.cure}, {self.right}"


def cases() -> tuple[Case, ...]:
    """All cases, in the order of the collections and their names."""
    found = (sorted((FOLDER / each).glob("*/right.mgn")) for each in COLLECTIONS)
    return tuple(Case(path.parent) for paths in found for path in paths)


def heads(path: Path) -> dict[str, str]:
    """The comments that describe a case, by their keyword."""
    return dict(HEAD.findall(path.read_text()))


def outcome(case: Case) -> Outcome:
    """The answers to both programs of a case, and to the data they are fed."""
    accepted = refused(case.right)
    right = "accepted" if accepted is None else accepted.code
    if case.is_right_alone:
        return Outcome(str(case), "-", "-", "-", right)
    report = said(case)
    if report is None:
        return Outcome(str(case), "silent", "-", "-", right)
    return Outcome(str(case), report.code, _place(case, report), _cure(case, report), right)


def said(case: Case) -> Report | None:
    """The first error about the wrong program and its data; else a note at the mistake."""
    error = refused(case.wrong)
    if error is not None or case.is_fed:
        return error
    notes = check_file(str(case.wrong)).reports
    return next((each for each in notes if _place(case, each) == "there"), None)


def refused(path: Path) -> Report | None:
    """The first error about a program and its data."""
    reports = check_file(str(path)).reports
    errors = [each for each in reports if each.severity is Severity.ERROR]
    fed = heads(path).get("fed")
    if fed is not None and not errors:
        return refusal(load(str(path)), described(fed))
    return next(iter(errors), None)


def described(fed: str) -> Arrays:
    """Arrays of zeros, as `x f32[10, 19], y i64[10]` describes them."""
    found = {}
    for name, kind, shape in TENSOR.findall(fed):
        sizes = [int(each) for each in shape.split(",") if each]
        found[name] = np.zeros(sizes, f"{KINDS[kind[0]]}{kind[1:]}")
    return found


def refusal(program: Program, arrays: Arrays) -> Report | None:
    """The message of a training, or of a run if there is none, that is fed these arrays."""
    try:
        if program.module.trains:
            _train(program, arrays)
        else:
            _run(program, arrays)
    except ProblemError as error:
        return error.problem.report()
    return None


def _train(program: Program, arrays: Arrays) -> None:
    count = max((each.shape[0] for each in arrays.values() if each.ndim), default=1)
    settings = (f"batch={count}", "drop_last=false")
    (train,) = program.module.trains
    request = RunRequest(program, train, Path(), settings, PythonData(arrays))
    chosen = request.settings_with_data
    wanted = TrainSignature.of(program, train, chosen).input_spec
    dataset = dataset_of(request.written, chosen, wanted, request.folder, request.data)
    dataset.train.take(slice(count))


def _run(program: Program, arrays: Arrays) -> None:
    declared = elaborate_model(program).inputs
    bind_sizes(declared, {name: each.shape for name, each in arrays.items()})
    feeds({}, declared, as_tensors(arrays))


def _place(case: Case, report: Report) -> str:
    if case.is_fed:
        return "there" if f"`{heads(case.wrong)['named']}`" in render(report) else "elsewhere"
    lines = case.wrong.read_text().splitlines()
    (mistake,) = (at for at, line in enumerate(lines, 1) if line.endswith("# mistake"))
    if report.label is None:
        return "nowhere"
    span = report.label.span
    if span.source.name != str(case.wrong):
        return Path(span.source.name).name
    return "there" if span.line == mistake else f"line {span.line}"


def _cure(case: Case, report: Report) -> str:
    if report.help is None:
        return "none"
    edits = " ".join(each.text for each in report.help.edits)
    words = f"{report.help.text} {report.help.code or ''} {edits}"
    asked = heads(case.wrong).get("asked")
    if asked is not None:
        return "asked" if asked in " ".join(words.split()) else "other"
    return "right" if any(each in words for each in expected(case)) else "other"


def expected(case: Case) -> Sequence[str]:
    """The texts of which the first help of a case has to name one."""
    return heads(case.wrong)["cure"].split(" or ")
