"""A process that runs Python source of users and exports the module that it has.

Its argument is a folder that has `QUESTION`; it leaves `MODEL` and `ANSWER` there. The source
prints to where this process prints.
"""

import importlib.util
import inspect
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.importing.source.exported_sizes import (
    Replacements,
    open_sizes,
    quiet_export,
    replacements,
)
from meganeura_runtime.importing.source.source_text import (
    DTYPES,
    Example,
    PythonSource,
    example,
    numbers_of,
    python_source,
)
from meganeura_runtime.importing.source.torch_source_problems import UnusableSource
from meganeura_runtime.importing.source.user_code import described, place, user_code
from meganeura_runtime.importing.torch_program import load_torch, write_onnx

QUESTION, MODEL, ANSWER = "question.json", "model.onnx", "answer.json"
DATA_DEPENDENT = "GuardOnDataDependentSymNode"
"""The error of PyTorch where Python asks for a number of a tensor."""
SHOWN = 6
"""Names of a file that are listed."""


def answer(folder: Path, asked: Mapping[str, Any]) -> dict[str, object]:
    """Writes the model that is asked for as ONNX, and returns facts about it.

    Raises `ProblemError`.
    """
    torch = load_torch()
    source = python_source(asked["source"])
    assert source is not None
    examples = [example(each) for each in asked["examples"]]
    module = _module(torch, source)
    given = _ordered(source, module, examples)
    exported, replaced = _exported(torch, source, module, given)
    sizes = open_sizes(source.text, exported, given, replaced)
    try:
        stated = write_onnx(torch, exported, folder / MODEL)
    except ProblemError as error:
        if not isinstance(error.problem, UnreadableOnnx):
            raise
        raise _unusable(source, error.problem.reason) from None
    return {
        "trained": sorted(stated.trained or ()),
        "tracked": stated.tracked,
        "sizes": sizes.names,
        "conditions": sizes.conditions,
    }


def _unusable(
    source: PythonSource, reason: str, cure: str = "nothing was written", where: str = ""
) -> ProblemError:
    return ProblemError(UnusableSource(source.text, reason, cure, where))


def _module(torch: Any, source: PythonSource) -> Any:  # noqa: ANN401 - an extra
    """The module that is named, in evaluation mode on the CPU; raises `ProblemError`."""
    torch.manual_seed(0)
    modules = cast("type[Any]", torch.nn.Module)
    found: Any = _found(torch, source, _loaded(source))
    named = f"`{source.name}`"
    if isinstance(found, type) and not issubclass(found, modules):
        raise _unusable(source, f"`{source.name}` does not derive from torch.nn.Module")
    if isinstance(found, modules):
        if source.is_called:
            cure = f"write {source.path}:{source.name} without arguments"
            raise _unusable(source, f"`{source.name}` is a module already, and takes none", cure)
    elif callable(found):
        _require_arguments(source, found)
        with user_code(source.text, f"when `{source.name}` was called"):
            found = found(*source.args, **source.kwargs or {})
        named = f"the result of {named}"
    if not isinstance(found, modules):
        raise _unusable(source, f"{named} is of type {type(found).__name__}, no torch.nn.Module")
    net: Any = found
    with user_code(source.text, "when it was put in evaluation mode"):
        return net.eval().cpu()


def _loaded(source: PythonSource) -> ModuleType:
    """The file as a module, which finds what is beside it."""
    name = source.path.stem if source.path.stem not in sys.modules else "meganeura_source"
    sys.path.insert(0, str(source.path.parent.resolve()))
    sys.argv = [str(source.path)]
    spec = importlib.util.spec_from_file_location(name, source.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with user_code(source.text, "while it was loaded"):
        spec.loader.exec_module(module)
    return module


def _found(torch: Any, source: PythonSource, module: ModuleType) -> Any:  # noqa: ANN401 - as above
    """The object of a name; raises `ProblemError` with the names that there are."""
    found: Any = module
    for part in source.name.split(".") if source.name else ():
        if not hasattr(found, part):
            raise _unknown(torch, source, module, f"it has no `{source.name}`")
        found = getattr(found, part)
    if not source.name:
        raise _unknown(torch, source, module, "it is not said which module of the file")
    return found


def _unknown(torch: Any, source: PythonSource, module: ModuleType, reason: str) -> ProblemError:  # noqa: ANN401 - as above
    """The error about a name, with those of modules and functions that the file defines."""
    modules = cast("type[Any]", torch.nn.Module)
    values: dict[str, Any] = dict(vars(module))
    known = [name for name, value in values.items() if isinstance(value, modules)]
    known += [
        name
        for name, value in values.items()
        if (inspect.isfunction(value) or (isinstance(value, type) and issubclass(value, modules)))
        and value.__module__ == module.__name__
    ]
    near = get_close_matches(source.name, known, 1) or known[:SHOWN]
    written = [f"{source.path}:{each}" for each in near]
    cure = f"write {' or '.join(written)}" if written else "the file defines no module"
    return _unusable(source, reason, cure)


def _require_arguments(source: PythonSource, found: Any) -> None:  # noqa: ANN401 - as above
    """Raise `ProblemError` for arguments that a class or a function does not take."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # of native code, which says so itself
        return
    try:
        signature.bind(*source.args, **source.kwargs or {})
    except TypeError as error:
        reason = f"`{source.name}{signature}` has {error}"
        names = [
            f"{name}=..."
            for name, each in signature.parameters.items()
            if each.default is each.empty
            and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        ]
        cure = f"write its arguments as literals: {source.path}:{source.name}({', '.join(names)})"
        raise _unusable(source, reason.replace(" has missing", ": missing"), cure) from None


def _ordered(source: PythonSource, module: Any, examples: Sequence[Example]) -> list[Example]:  # noqa: ANN401 - as above
    """The examples in the order of `forward`'s parameters; raises `ProblemError`."""
    parameters = inspect.signature(module.forward).parameters
    taken = {
        name: each
        for name, each in parameters.items()
        if each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
    }
    by_name = {each.name: each for each in examples}
    shown = f"`forward` takes {quoted(taken)}" if taken else "`forward` names no input"
    for name in by_name:
        if name not in taken:
            near = get_close_matches(name, taken, 1)
            cure = (
                f"write `{near[0]}` in place of `{name}`" if near else "name an input of `forward`"
            )
            raise _unusable(source, f"{shown}, and an example is of `{name}`", cure)
    for name, each in taken.items():
        if name not in by_name and each.default is each.empty:
            cure = f'add --example "{name}: f32[n, 3]", with its type and sizes'
            raise _unusable(source, f"{shown}, and no example is of `{name}`", cure)
    if not by_name:
        raise _unusable(source, f"{shown}, and there is no example", "add one: --example")
    return [by_name[name] for name in taken if name in by_name]


def _exported(
    torch: Any,  # noqa: ANN401 - as above
    source: PythonSource,
    module: Any,  # noqa: ANN401 - as above
    examples: Sequence[Example],
) -> tuple[Any, Replacements]:
    """The exported program, and where its sizes became numbers; raises `ProblemError`.

    Where it fails, the module is run on zeros, which fails in the words of PyTorch's users.
    """
    numbers = numbers_of(examples)
    inputs = {
        each.name: torch.zeros(
            [numbers[size] if isinstance(size, str) else size for size in each.sizes],
            dtype=getattr(torch, DTYPES[each.dtype]),
        )
        for each in examples
    }
    shapes = {
        each.name: {
            axis: torch.export.Dim.AUTO
            for axis, size in enumerate(each.sizes)
            if isinstance(size, str)
        }
        for each in examples
    }
    parameters = inspect.signature(module.forward).parameters
    placed = [name for name in inputs if parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY]
    args = tuple(inputs[name] for name in placed)
    named = {name: each for name, each in inputs.items() if name not in placed}
    printed = io.StringIO()  # PyTorch writes its graph there when it fails
    try:
        with quiet_export(torch), replacements() as replaced, redirect_stderr(printed):
            exported = torch.export.export(module, args, named, dynamic_shapes=shapes)
    except BaseException as error:  # noqa: BLE001 - a file may raise SystemExit
        shown = ", ".join(f"{name} {[*each.shape]}" for name, each in inputs.items())
        with user_code(source.text, f"in `forward`, run on zeros: {shown}"), torch.no_grad():
            module(*args, **named)
        if type(error).__name__ == DATA_DEPENDENT:
            reason = "which way `forward` goes depends on numbers of a tensor"
            cure = "compute both ways and choose by `torch.where`; sizes come from shapes"
        else:
            reason = f"torch.export does not take it: {described(error)}"
            cure = "nothing was written"
        raise _unusable(source, reason, cure, place(error)) from None
    sys.stderr.write(printed.getvalue())
    return exported, replaced


def write_answer(folder: Path) -> None:
    """Answer the question of a folder by a file in it."""
    asked = json.loads((folder / QUESTION).read_text())
    try:
        found = answer(folder, asked)
    except ProblemError as error:
        problem: Problem = error.problem
        found = {"problem": type(problem).__name__, "fields": asdict(problem)}
    (folder / ANSWER).write_text(json.dumps(found))


if __name__ == "__main__":
    write_answer(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads of users may still run
