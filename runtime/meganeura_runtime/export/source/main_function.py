"""The parts of a file that make a model, run it on given inputs and compare its outputs."""

from collections.abc import Sequence

from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.literals import literal, plain_default
from meganeura_runtime.export.source.source_file import ModelSource
from meganeura_runtime.export.source.text import python_name
from meganeura_runtime.export.source.unit import Unit


def model_arguments(root: Unit, source: ModelSource) -> list[str]:
    """The configuration of the model that is no default, by name."""
    found: list[str] = []
    parameters = {each.name: each for each in root.block.parameters}
    for each in root.configuration:
        value = source.trace.roots[0].signature[each]
        plain = True if not isinstance(value, bool | int | float | str | list) else value
        default = plain_default(parameters[each])
        if default is None or default[0] != plain or type(default[0]) is not type(plain):
            found.append(f"{python_name(each, source.reserved)}={literal(plain)}")
    return found


def results_of(source: ModelSource) -> str:
    """The name of what the model gives: one tensor or several."""
    return "output" if len(source.trace.elaborated.graph.outputs) == 1 else "outputs"


def given_inputs(root: Unit) -> str:
    """The inputs of the model, out of the file of them, in order."""
    return f"given[name] for name in {_names([each.name for each in root.inputs])}"


def comparison(root: Unit, source: ModelSource, run: Sequence[str], difference: str) -> str:
    """A function `main` that compares the outputs, which the lines `run` compute, with others.

    `difference` is the largest difference of two tensors, which stand for `{}`.
    """
    outputs = list(source.trace.elaborated.graph.outputs)
    inputs = ", ".join(each.name for each in root.inputs) or "none"
    lines = [
        "def main():",
        '    """Compare with a run: python FILE WEIGHTS INPUTS OUTPUTS, all of them .safetensors.',
        "",
        f"    The inputs are {inputs}; it compares {', '.join(outputs)}.",
        '    """',
        "    if len(sys.argv) != 4:",
        "        sys.exit(main.__doc__)",
        "    weights, given, wanted = (load_file(path) for path in sys.argv[1:])",
        *run,
    ]
    if len(outputs) == 1:
        name = outputs[0]
        wanted = f'wanted["{name}"]'
        lines += [
            f"    difference = {difference.format('output', wanted)}",
            f'    print(f"{name}: largest difference {{difference:.3g}}")',
        ]
    else:
        lines += [
            *laid_out(f"for name, output in zip({_names(outputs)}, outputs, strict=True):", 4),
            f"        difference = {difference.format('output', 'wanted[name]')}",
            '        print(f"{name}: largest difference {difference:.3g}")',
        ]
    return "\n".join(lines)


def _names(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{each}"' for each in names) + "]"
