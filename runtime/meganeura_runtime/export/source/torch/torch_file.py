"""A model as one file of PyTorch: its classes, what makes it, and what compares it."""

from meganeura_runtime.export.source.form_problems import refusal
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


def torch_file(body: str, root: Unit, source: ModelSource) -> str:
    """The file: `body` has its classes and functions."""
    parts = [body, *made_model(root, source), _main(root, source)]
    whole = "\n\n\n".join(parts)
    head = "import math\n" if "math" in words_of(whole) else ""
    head += "import sys\n\nimport torch\n"
    head += "import torch.nn.functional as F\n" if "F" in words_of(whole) else ""
    head += "from safetensors.torch import load_file\nfrom torch import nn\n\n\n"
    return head + whole


def made_model(root: Unit, source: ModelSource) -> list[str]:
    """The function that makes the model; where its weights are below a path, a class for that."""
    instance = source.trace.roots[0]
    sizes: list[str] = []
    for size in root.sizes:
        value = instance.signature[size]
        if not isinstance(value, int):
            reason = f"the constructor needs the size `{size}`: give it with `--set {size}=...`"
            raise refusal(f"`{root.name}`", reason, root.block.name.span)
        sizes.append(str(value))
    given = model_arguments(root, source)
    made = f"{root.name}({', '.join([*sizes, *given])})"
    parts: list[str] = []
    if instance.path:
        parts.append(_below(instance.path, made, root, source))
        made = "Model()"
    lines = [
        f"def {source.model}():",
        f'    """The model `{source.model}`."""',
        *laid_out(f"return {made}", 4),
    ]
    return [*parts, "\n".join(lines)]


def _below(path: str, made: str, root: Unit, source: ModelSource) -> str:
    """A class that has the model below the path of its weights."""
    if "Model" in source.reserved:
        raise refusal(f"`{root.name}`", "a block is called `Model`", root.block.name.span)
    words = path.split(".")
    if any(not each.isidentifier() for each in words):
        raise refusal(f"`{root.name}`", f"its weights are below `{path}`", root.block.name.span)
    inputs = [python_name(each.name, source.reserved) for each in root.inputs]
    lines = ["class Model(nn.Module):", f'    """The weights are below `{path}`."""', ""]
    lines += ["    def __init__(self):", "        super().__init__()"]
    lines += [f"        self.{'.'.join(words[:at])} = nn.Module()" for at in range(1, len(words))]
    lines += laid_out(f"self.{path} = {made}", 8)
    lines += ["", f"    def forward({', '.join(['self', *inputs])}):"]
    lines += [f"        return self.{path}({', '.join(inputs)})"]
    return "\n".join(lines)


def _main(root: Unit, source: ModelSource) -> str:
    """Returns the `main` of the file: it runs the model on given inputs, and compares."""
    run = [
        f"    model = {source.model}()",
        "    model.load_state_dict(weights, strict=True)",
        "    model.eval()",
        "    with torch.no_grad():",
        *laid_out(f"{results_of(source)} = model(*({given_inputs(root)}))", 8),
    ]
    return comparison(root, source, run, "({} - {}).abs().max()")
