"""Results of a block that are taken by their names: `out.value`, `(x |> agent).value`."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import EndedWithScan
from meganeura_dsl.elaborate.problems.result_problems import NoSuchResult
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import ElabValue, NamedResults, Tensor, is_tensor
from meganeura_dsl.syntax import ast


def result_named(node: ast.Attribute, frame: Frame, *, is_path: bool) -> Tensor | None:
    """Returns the result that an attribute names; None if it is an attribute of another value.

    `is_path` says that the text is a path, which may be that of a parameter: then only a name that
    is bound to results has them. Raises E0234 for a name that none of the results has.
    """
    base = node.base
    if is_path:
        bound = frame.names.get(base.text) if isinstance(base, ast.Name) else None
        if not isinstance(bound, NamedResults):
            return None
    elif not isinstance(base, ast.Pipe | ast.Call):
        return None
    value = frame.evaluate(base)
    if isinstance(value, NamedResults):
        found = dict(value.items).get(node.name)
        if found is not None:
            return found
    elif not is_tensor(value) and not isinstance(value, tuple):
        return None
    raise _none_such(node, value, frame)


def require_results(node: ast.Attribute, frame: Frame) -> None:
    """Raise `ProblemError` for an attribute of one tensor, and of what a scan alone had."""
    if not isinstance(node.base, ast.Name) or node.base.text in frame.layers:
        return
    name = f"{node.base.text}.{node.name}"
    if name in frame.scan_locals:
        raise ProblemError(EndedWithScan(frame.location(node.span), name))
    bound = frame.names.get(node.base.text)
    if bound is not None and is_tensor(bound):
        raise _none_such(node, bound, frame)


def result_paths(frame: Frame) -> list[str]:
    """Returns the results that names are bound to, as they are written: `out.value`."""
    bound = ((name, each) for name, each in frame.names.items() if isinstance(each, NamedResults))
    return [f"{name}.{result}" for name, each in bound for result in each.names]


def _none_such(node: ast.Attribute, value: ElabValue, frame: Frame) -> ProblemError:
    names = value.names if isinstance(value, NamedResults) else ()
    count = len(value) if isinstance(value, tuple) else max(len(names), 1)
    close = nearest(node.name, names)
    written = node.span.text.removesuffix(node.name).rstrip().removesuffix(".")
    location = frame.location(node.span)
    return ProblemError(NoSuchResult(location, node.name, count, names, close, written))
