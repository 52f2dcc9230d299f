"""The file of a compiled model: safetensors, with what is no tensor as JSON in its metadata.

The tensors are the parameters of the inference form, under the names its graph has for them. The
metadata holds the plan with its kernels, for any adapter, and the graph, for a machine without one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.ir.verify import GraphError, verify
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.expand_fused import expand_fused
from meganeura_runtime.backends.backend import OpenDevice
from meganeura_runtime.backends.base import Session, caches_of, leaf_types
from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, WITH_MATRICES
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.plan import Plan, PlanError
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.backends.webgpu.verify_plan import verify_plan
from meganeura_runtime.export.mgb.consistency import Forms, MismatchError, require_one_model
from meganeura_runtime.export.mgb.container_problems import NotAnArtefact
from meganeura_runtime.export.mgb.generation_form import GenerationForm
from meganeura_runtime.export.mgb.seal import is_sealed, seal
from meganeura_runtime.export.mgb.training_form import TrainingForm
from meganeura_runtime.io.preprocess.preparation import NOTHING, Preparation
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.stored_tensor import read

KEY = "meganeura.artefact"
"""The entry of the metadata that makes a safetensors file a compiled model."""

SEAL = "meganeura.seal"
"""The entry that says which installation compiled it."""

VERSION = 4


@dataclass(frozen=True)
class IndexBound:
    """The bound of an index: 0 ... count - 1, or a number that stands for none."""

    count: int
    exempt: tuple[int, ...] = ()


@dataclass(frozen=True)
class Header:
    """The header of the file: all but the tensors."""

    model: str
    graph: str
    plan: Plan
    bounds: dict[str, IndexBound]
    """The bounds in the graph, for readers that know no graphs, and those the program states."""
    training: TrainingForm | None = None
    """The training that the graph is a step of, if any."""
    generation: GenerationForm | None = None
    """The generation that the graph is a step of, if any."""
    matrices: Plan | None = None
    """The plan of the graph in f16, for adapters with matrix units; browsers choose."""
    version: Literal[4] = VERSION


_ADAPTER: TypeAdapter[Header] = TypeAdapter(Header)


@dataclass(frozen=True, eq=False)
class Artefact:
    """A compiled model: its name, its graph, the plan of that graph, and its parameters."""

    model: str
    graph: Graph
    plan: Plan
    values: Mapping[str, Array]
    trusted: bool = True
    """True if this installation made the plan: kernels of others run with checked bounds."""
    training: TrainingForm | None = None
    """The training that the graph is a step of, if any."""
    generation: GenerationForm | None = None
    """The generation that the graph is a step of, if any."""
    matrices: Plan | None = None
    """The plan of the graph in f16, for adapters with matrix units; browsers choose."""
    stated: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """Bounds that the program states for its inputs, which the graph does not hold."""
    preparation: Preparation = NOTHING
    """The preparation of its inputs in training, and its classes."""

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """The types of the inputs, all sizes known."""
        return leaf_types(self.graph)[1]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return tuple(name for name in self.graph.outputs if not isinstance(name, IndexCheck))

    @cached_property
    def bounds(self) -> Mapping[str, Bound]:
        """The inputs and parameters that are indices, or have to be below a number as they are."""
        stated = {name: bound for name, bound in self.stated.items() if name in self.inputs}
        return all_of(leaf_bounds(expand_fused(self.graph)), stated)

    def open(
        self,
        device: str = "auto",
        precision: ComputePrecision = ComputePrecision.F32,
        *,
        replan: bool = False,
    ) -> Session:
        """The model on a device, ready to run: its plan on an adapter, its graph on any other.

        The plan is for any adapter, of kernels that compile soon. `replan` plans the graph for this
        one, as that of a program is: it takes longer to open, and less for each step.
        """
        return self.open_on(choose_device(device, precision=precision), replan=replan)

    def open_on(self, chosen: OpenDevice, *, replan: bool = False) -> Session:
        """The same on a device that is open; its plan is of float32, so others are planned anew."""
        if (
            isinstance(chosen, OpenAdapter)
            and chosen.precision is ComputePrecision.F32
            and not replan
        ):
            inner = self._on(chosen.device)
        else:
            inner = chosen.open(self.graph)
        session = with_indices_checked(self.graph, inner, self.bounds)
        session.load(self.values)
        session.begin(caches_of(self.graph))
        return session

    def _on(self, device: Device) -> Session:
        session = WebGpuSession(self.plan, device, checked=not self.trusted)
        if self.trusted:
            return session
        try:
            session.ready()
        except OutOfMemoryError:
            session.close()
            raise
        except DeviceError as error:
            session.close()
            reason = f"its kernels cannot be compiled or bound: {error}"
            raise ProblemError(NotAnArtefact(self.model, reason)) from error
        return session

    def write(self, path: Path) -> None:
        """Write the file at once or not at all; raises `ProblemError`."""
        text = format_graph(self.graph)
        bounds = _index_bounds(self.bounds)
        header = _ADAPTER.dump_json(
            Header(
                self.model,
                text,
                self.plan,
                bounds,
                self.training,
                self.generation,
                self.matrices,
            )
        )
        sealed = seal(header) if self.trusted else None
        origin = {} if sealed is None else {SEAL: sealed}
        entries = self.preparation.entries
        write_tensors(path, self.values, {KEY: header.decode(), **origin, **entries})

    @staticmethod
    def read(path: Path) -> "Artefact":
        """Read a file; raises `ProblemError` where it is none, or one of another version.

        Whatever it holds, its graph and its plan are checked, also against each other, so that it
        runs within its own memory; see `docs/security.md`.
        """
        tensors, metadata = open_tensors(path)
        if KEY not in metadata:
            raise ProblemError(NotAnArtefact(str(path), "it holds tensors, but no plan"))
        try:
            header = _ADAPTER.validate_json(metadata[KEY])
            graph = parse_graph(header.graph, [*OPS, *FUSED_OPS])
            verify(graph)
            verify_plan(header.plan, PORTABLE)
            forms = Forms(header.training, header.generation)
            require_one_model(graph, header.plan, tensors, forms)
            if header.matrices is not None:
                verify_plan(header.matrices, WITH_MATRICES)
                require_one_model(graph, header.matrices, tensors, forms)
            for plan in forms.plans:
                verify_plan(plan, PORTABLE)
        except (MismatchError, PlanError) as error:
            raise ProblemError(NotAnArtefact(str(path), str(error))) from None
        except ValidationError as error:
            raise ProblemError(NotAnArtefact(str(path), _first_error(error))) from None
        except (GraphTextError, GraphError) as error:
            reason = f"its graph cannot be read: {error}"
            raise ProblemError(NotAnArtefact(str(path), reason)) from None
        found = Artefact(
            header.model,
            graph,
            header.plan,
            {},
            training=header.training,
            generation=header.generation,
            matrices=header.matrices,
            preparation=Preparation.of(path, metadata),
        )
        stated = {
            name: Bound(each.count, frozenset(each.exempt), str(each.count))
            for name, each in header.bounds.items()
            if name in found.inputs and found.inputs[name].dtype is DType.I32
        }
        found = replace(found, stated=stated)
        if _index_bounds(found.bounds) != header.bounds:
            raise ProblemError(NotAnArtefact(str(path), "its bounds are not those of its graph"))
        persistent = leaf_types(graph)[0]
        values = {
            name: read(tensors[name], persistent[name].dtype)
            for name in persistent
            if name in tensors
        }
        trusted = is_sealed(metadata[KEY].encode("utf-8", "replace"), metadata.get(SEAL, ""))
        return replace(found, values=values, trusted=trusted)


def open(  # noqa: A001 - called `artefact.open`
    path: Path | str, device: str = "auto", *, replan: bool = False
) -> Session:
    """A compiled model on a device, ready to run; raises `ProblemError`. See `Artefact.open`."""
    return Artefact.read(Path(path)).open(device, replan=replan)


def _index_bounds(bounds: Mapping[str, Bound]) -> dict[str, IndexBound]:
    return {
        name: IndexBound(bound.count, tuple(sorted(bound.exempt))) for name, bound in bounds.items()
    }


def _first_error(error: ValidationError) -> str:
    errors = error.errors()
    version = next((each["input"] for each in errors if each["loc"] == ("version",)), None)
    if version is not None:
        return f"its format is {version}, and {VERSION} is read here: compile it again"
    first = errors[0]
    return f"its header cannot be read: {'.'.join(map(str, first['loc']))}: {first['msg']}"
