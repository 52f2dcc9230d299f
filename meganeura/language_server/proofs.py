"""The verdict on each declaration in one line, for hovers and lenses."""

from meganeura.language_server.analysis import Analysis
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.elaborate.problems.name_problems import CheckedPerModel
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Named
from meganeura_dsl.ir.types import element_count
from meganeura_dsl.syntax import ast


def proof_status(analysis: Analysis, module: LinkedModule, node: Named) -> str:
    """The verdict on a block or model as text; empty for a formula, which is not proved."""
    if isinstance(node, ast.Def):
        return ""
    if module.is_library:
        return "proved for all sizes"
    reports = [report for report in analysis.reports if _is_of(node, report.label)]
    errors = sum(report.severity is Severity.ERROR for report in reports)
    if errors:
        return f"{errors} error{'' if errors == 1 else 's'}"
    if isinstance(node, ast.Model):
        return parameters_of(analysis, node)
    if any(report.code == CheckedPerModel.code for report in reports):
        return "checked in each model that uses it"
    is_own = module is analysis.module
    is_proved = node.name.text in analysis.result.proved
    return "proved for all sizes" if is_proved or not is_own else ""


def _is_of(node: ast.Declaration, label: object) -> bool:
    span = getattr(label, "span", None)
    if span is None or span.source is not node.span.source:
        return False
    return node.span.start <= span.start < node.span.end


def errors_in(analysis: Analysis, node: ast.Declaration) -> int:
    """Returns the number of errors in a declaration."""
    errors = (each for each in analysis.reports if each.severity is Severity.ERROR)
    return sum(_is_of(node, report.label) for report in errors)


def parameters_of(analysis: Analysis, model: ast.Model) -> str:
    """`11,689,512 weights in 62 params`, as `expect` counts them: without states."""
    found = analysis.result.elaborations.get(model.name.text)
    if found is None:
        return ""
    types = [each.type for each in found.parameters if each.kind != "state"]
    if not all(isinstance(size, int) for type_ in types for size in type_.shape):
        return f"{len(types)} params"
    return f"{sum(map(element_count, types)):,} weights in {len(types)} params"
