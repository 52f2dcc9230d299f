"""A compiled model made of graphs; reading one needs none of what this imports."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.declarations.generation import Draw, TokenStep
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.pipeline import Program
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.pack_parameters import pack_parameters, packed_values
from meganeura_runtime.backends.base import caches_of, leaf_types
from meganeura_runtime.backends.inference_session import shared_form
from meganeura_runtime.backends.webgpu.config.kernel_config import FusionConfig
from meganeura_runtime.backends.webgpu.config.limits import (
    PORTABLE,
    WITH_MATRICES,
    DeviceLimits,
    MatrixDialect,
)
from meganeura_runtime.backends.webgpu.config.tuned_configs import TunedConfigs, step_name
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb.container import Artefact
from meganeura_runtime.export.mgb.generation_form import DrawPlans, GenerationForm, PromptStep
from meganeura_runtime.export.mgb.portable_tokenizer import PortableTokenizer
from meganeura_runtime.export.mgb.training_form import TrainingForm
from meganeura_runtime.infer.generator import CHUNKS, room_for

LARGE_TILES = replace(WITH_MATRICES, workgroup_bytes=48 << 10)
"""Adapters with matrix units have that much, which their fastest tile may take."""
MATRICES = f"enable {MatrixDialect.CHROMIUM.value};"
"""The first line of a kernel for matrix units."""
QUICK = FusionConfig(quick=True)
"""A page has compiled nothing before, and its first answer waits for that."""


def compiled_model(
    name: str,
    graph: Graph,
    values: Mapping[str, Array],
    training: TrainingForm | None = None,
    stated: Mapping[str, Bound] | None = None,
    *,
    halves: bool = False,
) -> Artefact:
    """The model with the plan of its graph for any adapter; raises `LimitError`.

    `stated` is what the program says of inputs. With `halves` it has a second plan, in f16, for
    adapters with matrix units, unless none of its products is large enough for these.
    """
    plan = portable_plan(graph)
    matrices = portable_plan(graph, LARGE_TILES) if halves else None
    if matrices is not None and not any(MATRICES in text for text in matrices.kernels):
        matrices = None
    return Artefact(
        name, graph, plan, values, training=training, matrices=matrices, stated=stated or {}
    )


def portable_plan(graph: Graph, limits: DeviceLimits = PORTABLE) -> Plan:
    """The plan of a graph for any adapter, which compiles its kernels; raises `LimitError`."""
    return plan_graph(graph, limits, choices=TunedConfigs(fusings={step_name(graph): QUICK}))


@dataclass(frozen=True)
class TokenModel:
    """A model that generates, as it is configured."""

    program: Program
    name: str
    config: Mapping[str, StaticValue]
    rules: RewriteOptions
    levels: Mapping[str, Quantization] = field(default_factory=dict[str, Quantization])
    """The levels of the weights that are quantized."""

    @property
    def room(self) -> int:
        """The number of positions for tokens.

        Raises `ProblemError` if the model does not generate.
        """
        return room_for(
            lambda step: pipeline.elaborate_tokens(self.program, self.name, self.config, step)
        )

    def elaborated(self, tokens: int, capacity: int) -> Elaboration:
        """Returns the graph that reads so many tokens and gives the logits of the next."""
        step = TokenStep(capacity, tokens)
        return pipeline.elaborate_logits(self.program, self.name, self.config, step).elaboration

    def graph(self, tokens: int, capacity: int) -> Graph:
        """Its graph."""
        return self.elaborated(tokens, capacity).graph

    def step(self, tokens: int, capacity: int) -> Graph:
        """The graph as it runs: shared forms, and packed parameters."""
        return pack_parameters(shared_form(self.graph(tokens, capacity), self.rules), self.levels)

    def draw(self, vocabulary: int, draw: Draw) -> Graph:
        """Returns the graph that draws a token from logits, as it runs."""
        elaborated = pipeline.elaborate_draw(self.program, self.name, vocabulary, draw)
        return shared_form(elaborated.graph, self.rules)


def compiled_generation(
    model: TokenModel,
    values: Mapping[str, Array],
    capacity: int,
    tokenizer: PortableTokenizer,
) -> Artefact:
    """The plans that write texts of up to so many tokens; raises `LimitError`, `ProblemError`.

    `values` may hold more than the parameters of the model.
    """
    graph, stated = model.step(1, capacity), model.elaborated(1, capacity).stated_bounds({})
    plan = portable_plan(graph)
    (vocabulary,) = (each.shape[-1] for each in plan.outputs if each.name == "logits")
    tokenizer.require_vocabulary(vocabulary)
    caches = caches_of(graph)
    persistent = [name for name in leaf_types(graph)[0] if name not in caches]
    form = GenerationForm(
        capacity,
        vocabulary,
        caches,
        tuple(
            PromptStep(tokens, portable_plan(model.step(tokens, capacity)))
            for tokens in CHUNKS
            if 1 < tokens <= capacity
        ),
        DrawPlans(*(portable_plan(model.draw(vocabulary, draw)) for draw in Draw)),
        tokenizer.text,
        tokenizer.ends,
    )
    everything = packed_values(values, model.levels)
    kept = {name: everything[name] for name in persistent}
    return Artefact(model.name, graph, plan, kept, generation=form, stated=stated)
