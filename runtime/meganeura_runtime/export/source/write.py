"""A model as one file of Python: its classes, what makes it, and what compares it."""

from collections.abc import Mapping
from pathlib import Path

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.literals import literal, plain_default
from meganeura_runtime.export.source.text import python_name, words_of
from meganeura_runtime.export.source.torch_source import TorchSource, source_of
from meganeura_runtime.export.source.trace import Trace, traced
from meganeura_runtime.export.source.unit import Unit
from meganeura_runtime.io.files.atomic_write import write_text

MARK = "# Written by `meganeura export"
"""The beginning of a file that `meganeura export` wrote and may replace."""


def write_torch(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
    path: Path,
) -> int:
    """Writes a model as PyTorch source; returns the number of lines. Raises `ProblemError`."""
    text = torch_text(module, model, config, sizes)
    write_text(path, text)
    return text.count("\n")


def torch_text(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
) -> str:
    """Returns the source of a model. Raises `ProblemError`."""
    trace = traced(module, model, config, sizes)
    if not any(each.owns for each in trace.roots):
        raise refusal(f"`{model.name.text}`", "it has no weights", model.name.span)
    body, root, source = source_of(trace)
    name = python_name(model.name.text, source.reserved | {root.name})
    parts = [body.rstrip("\n"), *_made(name, root, trace, source), _main(name, root, trace)]
    whole = "\n\n\n".join(parts)
    head = f"{MARK} {model.name.text} --to torch`.\n\n"
    head += "import math\n" if "math" in words_of(whole) else ""
    head += "import sys\n\nimport torch\n"
    head += "import torch.nn.functional as F\n" if "F" in words_of(whole) else ""
    head += "from safetensors.torch import load_file\nfrom torch import nn\n\n\n"
    closing = '\n\n\nif __name__ == "__main__":\n    main()\n'
    return head + whole + closing


def _made(name: str, root: Unit, trace: Trace, source: TorchSource) -> list[str]:
    """The function that makes the model; where its weights are below a path, a class for that."""
    instance = trace.roots[0]
    sizes: list[str] = []
    for size in root.sizes:
        value = instance.signature[size]
        if not isinstance(value, int):
            reason = f"the constructor needs the size `{size}`: give it with `--set {size}=...`"
            raise refusal(f"`{root.name}`", reason, root.block.name.span)
        sizes.append(str(value))
    given: list[str] = []
    parameters = {each.name: each for each in root.block.parameters}
    for each in root.configuration:
        value = instance.signature[each]
        plain = True if not isinstance(value, bool | int | float | str | list) else value
        default = plain_default(parameters[each])
        if default is None or default[0] != plain or type(default[0]) is not type(plain):
            given.append(f"{python_name(each, source.reserved)}={literal(plain)}")
    made = f"{root.name}({', '.join([*sizes, *given])})"
    parts: list[str] = []
    if instance.path:
        parts.append(_below(instance.path, made, root, source))
        made = "Model()"
    lines = [f"def {name}():", f'    """The model `{name}`."""', *laid_out(f"return {made}", 4)]
    return [*parts, "\n".join(lines)]


def _below(path: str, made: str, root: Unit, source: TorchSource) -> str:
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


def _main(name: str, root: Unit, trace: Trace) -> str:
    """Returns the `main` of the file: it runs the model on given inputs, and compares."""
    outputs = list(trace.elaborated.graph.outputs)
    inputs = [each.name for each in root.inputs]
    results = "output" if len(outputs) == 1 else "outputs"
    called = f"{results} = model(*(given[name] for name in {_names(inputs)}))"
    lines = [
        "def main():",
        '    """Compare with a run: python FILE WEIGHTS INPUTS OUTPUTS, all of them .safetensors.',
        "",
        f"    The inputs are {', '.join(inputs) or 'none'}; it compares {', '.join(outputs)}.",
        '    """',
        "    if len(sys.argv) != 4:",
        "        sys.exit(main.__doc__)",
        "    weights, given, wanted = (load_file(path) for path in sys.argv[1:])",
        f"    model = {name}()",
        "    model.load_state_dict(weights, strict=True)",
        "    model.eval()",
        "    with torch.no_grad():",
        *laid_out(called, 8),
    ]
    if len(outputs) == 1:
        name = outputs[0]
        lines += [
            f'    difference = (output - wanted["{name}"]).abs().max()',
            f'    print(f"{name}: largest difference {{difference:.3g}}")',
        ]
    else:
        lines += [
            *laid_out(f"for name, output in zip({_names(outputs)}, outputs, strict=True):", 4),
            "        difference = (output - wanted[name]).abs().max()",
            '        print(f"{name}: largest difference {difference:.3g}")',
        ]
    return "\n".join(lines)


def _names(names: list[str]) -> str:
    return "[" + ", ".join(f'"{each}"' for each in names) + "]"
