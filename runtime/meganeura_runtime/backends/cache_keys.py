"""Keys of compiled results: each is a hash of everything that the result depends on.

A key is a hash of the canonical bytes of all of it. Graphs are taken as text, with every attribute,
type and name, and with the places that plans show.
"""

import json
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import meganeura_runtime
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.support.compiler_fingerprint import fingerprint, front_end
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.training_step import TrainingSettings

ENGINE = "egglog"


@dataclass(frozen=True)
class OptimizedKey:
    """The key of an optimized graph."""

    graph: str
    mode: str
    """`infer`, or all that a training step is made with."""
    disabled_rules: tuple[str, ...]
    device: str
    """The device that the optimizer assumes."""
    compiler: str

    @property
    def key(self) -> str:
        """The name of the entry."""
        return key_of("optimized", asdict(self))


def inference_of(graph: Graph, rewriting: RewriteOptions, mode: str = "infer") -> OptimizedKey:
    """Returns the key of the inference form of a graph."""
    return _optimized_of(graph, mode, rewriting)


def step_of(forward: Graph, settings: TrainingSettings, rewriting: RewriteOptions) -> OptimizedKey:
    """Returns the key of the optimized training step of a graph."""
    return _optimized_of(forward, repr(settings), rewriting)


def _optimized_of(graph: Graph, mode: str, rewriting: RewriteOptions) -> OptimizedKey:
    device = repr(rewriting.device)
    return OptimizedKey(format_graph(graph), mode, rewriting.disabled, device, compiler())


@cache
def compiler() -> str:
    """This version of the program, to the letter: also an edited one is another."""
    digest = sha256(front_end().encode())
    for folder in meganeura_runtime.__path__:
        digest.update(fingerprint(folder).encode())
    digest.update(_engine().encode())
    return digest.hexdigest()


def _engine() -> str:
    """The version of the library that rewrites graphs; its name is found without loading it."""
    found = find_spec(ENGINE)
    if found is None or found.origin is None:
        return ""
    packages = Path(found.origin).parent.parent
    return " ".join(sorted(path.name for path in packages.glob(f"{ENGINE}-*.dist-info")))


def key_of(kind: str, ingredients: dict[str, object]) -> str:
    """The cache key of an entry of this kind made from these ingredients."""
    return sha256(json.dumps([kind, ingredients], sort_keys=True).encode()).hexdigest()
