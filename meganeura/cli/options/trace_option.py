"""The option `--profile FILE`: a trace of some steps, written when the run is over."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.support.phases import Phase

if TYPE_CHECKING:
    from meganeura_runtime.backends.backend import OpenDevice
    from meganeura_runtime.backends.base import OpenSession
    from meganeura_runtime.support.tracing import Span

TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--profile", metavar="FILE", help="Trace a few steps, for Perfetto or Chrome: trace.json."
    ),
]


@dataclass(frozen=True)
class Tracing:
    """The opener of sessions, and the listener to the host's work."""

    open: "OpenSession"
    span: "Span"


@contextmanager
def tracing(
    file: Path | None,
    chosen: "OpenDevice",
    steps: int | None = None,
    phases: Sequence[Phase] = (),
) -> Generator[Tracing]:
    """Trace a run of so many steps, if there is a file to write a trace to.

    The trace has the phases too that ran before it began, and those added meanwhile.
    """
    from meganeura_runtime.support.tracing import unobserved

    if file is None:
        yield Tracing(chosen.open, unobserved)
        return

    from meganeura_runtime.io.files.atomic_write import write_text
    from meganeura_runtime.profiling.trace import ENOUGH, Trace

    if not file.absolute().parent.is_dir():
        text = f"there is no folder `{file.absolute().parent}`"
        raise typer.BadParameter(text, param_hint="--profile")
    trace = Trace(chosen, ENOUGH if steps is None else steps)
    yield Tracing(trace.opening(chosen.open), trace.span)
    timeline = trace.finish()
    timeline.add(phases)
    write_text(file, timeline.text())
    steps_traced = sum(one.name.startswith("step ") for one in timeline.kernels)
    say(f"profile: {file} ({count(steps_traced, 'step')})")
