"""`meganeura run model.mgb`: a compiled model, which needs neither its program nor its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.problem import ProblemError

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Array
    from meganeura_dsl.settings.compute_precision import ComputePrecision
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.io.preprocess.input_transforms import Choices

SUFFIX = ".mgb"


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model that was read, and how it runs on inputs from files."""

    artefact: "Artefact"

    @property
    def outputs(self) -> list[str]:
        """The names of what it gives."""
        return list(self.artefact.outputs)

    def run(
        self,
        inputs: Sequence[str],
        choices: "Choices",
        device: str,
        precision: "ComputePrecision",
        seed: int,
    ) -> Mapping[str, "Array"]:
        """Returns the outputs for inputs, which have the sizes of the model."""
        from meganeura_runtime.backends.device_failures import explained_failures
        from meganeura_runtime.backends.registry import choose_device
        from meganeura_runtime.infer.feeds import feeds
        from meganeura_runtime.infer.input_files import Given, Reader
        from meganeura_runtime.infer.size_binding import bind_sizes

        wanted = self.artefact.inputs
        reader = Reader(wanted, choices, say, seed)
        tensors = reader.read([Given.parse(text) for text in inputs])
        bind_sizes(wanted, {name: each.shape for name, each in tensors.items()})
        fed = feeds(self.artefact.bounds, wanted, tensors)
        with explained_failures():
            chosen = choose_device(device, precision=precision)
            say(f"device: {chosen.description}")
            session = self.artefact.open_on(chosen)
        with explained_failures(), session:
            return dict(session.step(fed))


def read_compiled(model: str, fixed: Mapping[str, object]) -> CompiledModel | None:
    """The compiled model that a path names; what it was compiled with cannot be given again."""
    if not model.endswith(SUFFIX):
        return None
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.export.mgb.container_problems import NotAnArtefact

    for option, value in fixed.items():
        if value is not None and value is not False:
            raise typer.BadParameter("a compiled model has all that already", param_hint=option)
    artefact = Artefact.read(Path(model))
    if artefact.training is not None:
        raise ProblemError(NotAnArtefact(model, "it is a training step, which a page runs"))
    if artefact.generation is not None:
        raise ProblemError(NotAnArtefact(model, "it writes texts, which a page does"))
    return CompiledModel(artefact)
