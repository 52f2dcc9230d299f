"""A model as one file of JAX: its functions, the model itself, and what compares it."""

from meganeura_dsl.ir.ops import RandomBits
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.main_function import (
    comparison,
    given_inputs,
    model_arguments,
    results_of,
)
from meganeura_runtime.export.source.source_file import ModelSource
from meganeura_runtime.export.source.text import python_name, words_of
from meganeura_runtime.export.source.unit import Unit


def jax_file(body: str, root: Unit, source: ModelSource) -> str:
    """The file: `body` has its functions."""
    parts = [NESTED, body, model_function(root, source), _main(root, source)]
    whole = "\n\n\n".join(parts)
    head = "import math\n" if "math" in words_of(whole) else ""
    head += "import sys\n\nimport jax\nimport jax.numpy as jnp\n"
    head += "from safetensors.flax import load_file\n\n\n"
    return head + whole


NESTED = '''\
def nested(flat):
    """{"a.b": x} as {"a": {"b": x}}: the parameters of a layer are below its name."""
    found = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        below = found
        for part in path:
            below = below.setdefault(part, {})
        below[last] = value
    return found'''


IN_TRAINING = "In training, states in `params` are replaced by their next values."


def _flags(root: Unit) -> list[str]:
    return [*(["training"] if root.training else []), *(["keys"] if root.draws else [])]


def model_function(root: Unit, source: ModelSource) -> str:
    """The function that is the model."""
    inputs = [python_name(each.name, source.reserved) for each in root.inputs]
    graph = source.trace.elaborated.graph
    draws = any(isinstance(each.op, RandomBits) for each in graph.values) or source.draws_in_scans
    defaults = {"training": "=False", "keys": "" if draws else "=None"}
    flags = [f"{each}{defaults[each]}" for each in _flags(root)]
    parameters = ["params", *inputs, *(["*", *flags] if flags else [])]
    words = source.trace.roots[0].path.split(".") if source.trace.roots[0].path else []
    below = "params" + "".join(f'["{each}"]' for each in words)
    given = [below, *inputs, *model_arguments(root, source)]
    given += [f"{each}={each}" for each in _flags(root)]
    said = f"The model `{source.model}`."
    if root.training:
        said += f"\n\n    {IN_TRAINING}\n    "
    return "\n".join(
        [
            *laid_out(f"def {source.model}({', '.join(parameters)}):", 0),
            f'    """{said}"""',
            *laid_out(f"return {root.name}({', '.join(given)})", 4),
        ]
    )


def _main(root: Unit, source: ModelSource) -> str:
    """Returns the `main` of the file: it runs the model on given inputs, and compares."""
    keys = ", keys=random_keys(jax.random.key(0))" if root.draws else ""
    called = f"{source.model}(nested(weights), *({given_inputs(root)}){keys})"
    run = laid_out(f"{results_of(source)} = {called}", 4)
    return comparison(root, source, run, "jnp.abs({} - {}).max()")
