"""`show`: a value that the program asks to see, as it is."""

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.named_values import NUMBER, note_value
from meganeura_dsl.elaborate.values import ElabValue, Tensor, describe

MOST_LETTERS = 64
"""A name stands in a line beside numbers."""


def show(call: BuiltinCall) -> ElabValue:
    """The same value, which runs and trainings show by its name."""
    value = call.tensor(0)
    name = _name(call)
    _refuse_iterations(call, value)
    note_value(call.frame, name, value, is_shown=True)
    return value


def _name(call: BuiltinCall) -> str:
    name = call.option(1, "name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        found = f"`{name}`" if isinstance(name, str) else describe(name)
        location = call.frame.location(call.span)
        cure = Help("what it is called where it is shown", 'x |> show("after norm")')
        raise ProblemError(WrongKind(location, "a name in quotes", found, cure))
    if NUMBER in name:
        wanted = f"a name without `{NUMBER}`, which numbers the values of one name"
        raise ProblemError(WrongKind(call.frame.location(call.span), wanted, f"`{name}`"))
    if len(name) > MOST_LETTERS:
        wanted = f"a name of at most {MOST_LETTERS} characters"
        raise ProblemError(WrongKind(call.frame.location(call.span), wanted, f"{len(name)}"))
    return name


def _refuse_iterations(call: BuiltinCall, value: Tensor) -> None:
    """Refuse a value of the iterations of a scan, which has no value after the scan."""
    frame = call.frame
    scans = [scan for scan in frame.state.scans.values() if scan.region.depends(value)]
    if scans:
        index = scans[-1].index
        counters = (name for name, each in frame.names.items() if each is index)
        called = next((name for name, each in frame.names.items() if each is value), "h")
        code = f"all_{called}[{next(counters, 't')}] = {called}"
        cure = Help("collect it, and show what was collected", code)
        where = "shows no value of an iteration of a `scan`"
        raise frame.refuse(call.span, "`show`", where, cure)
