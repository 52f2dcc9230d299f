"""Facts in solved form: solved variables, bounds, and other facts as polynomials with a sign."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from meganeura_dsl.symbolic.conditions import Compare, Condition, Or
from meganeura_dsl.symbolic.polynomial import divide, floors_of, leading_monomial, variables_of
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute


@dataclass(frozen=True)
class SolverState:
    """Facts in a form to reason with. All polynomials are in the variables not solved for."""

    least: Mapping[str, int] = field(default_factory=dict[str, int])
    """Lower bounds of variables, where they are not 1; never negative."""
    values: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """The variables solved for. No value mentions a variable that has one itself."""
    quotients: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """Variables introduced for exact quotients, and their definitions: d//heads."""
    zero: tuple[Dim, ...] = ()
    """Polynomials known to be 0 that could not be solved for a variable."""
    nonnegative: tuple[Dim, ...] = ()
    """Polynomials known to be >= 0."""
    nonzero: tuple[Dim, ...] = ()
    """Polynomials known not to be 0."""
    flags: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """The flags whose value is known."""
    choices: tuple[Or, ...] = ()
    """Alternatives of which none is known to be the one."""
    is_contradictory: bool = False
    """True if the facts exclude each other."""

    def contradicted(self) -> "SolverState":
        """The state of facts that exclude each other."""
        return replace(self, is_contradictory=True)

    def solved_part(self) -> "SolverState":
        """Variables, bounds and flags, without the facts of `unsolved_part`."""
        return SolverState(self.least, self.values, self.quotients, flags=self.flags)

    def unsolved_part(self) -> list[Condition]:
        """The other facts as conditions, to be added again."""
        return [
            *(Compare("==", size, 0) for size in self.zero),
            *(Compare(">=", size, 0) for size in self.nonnegative),
            *(Compare("!=", size, 0) for size in self.nonzero),
            *self.choices,
        ]

    def least_of(self, name: str) -> int:
        """The lower bound of a variable that is not solved for."""
        return self.least.get(name, 1)

    def reduce(self, size: Size) -> Size:
        """The size in the variables not solved for; equal sizes mostly become equal objects."""
        size = self.solved(size)
        for relation in self.zero:
            size = divide(size, relation)[1]
        return size

    def solved(self, size: Size) -> Size:
        """The size with a value for every variable that has one."""
        return substitute(size, self.values) if self.values else size

    def restore(self, size: Size) -> Size:
        """A reduced size without the variables introduced for quotients."""
        for name, whole in self._multiples.items():
            size = _factored(size, whole, name)
        return substitute(substitute(size, self.quotients), self._plain_values)

    def raised(self, size: Dim) -> Size:
        """The size with each variable counted from its lower bound, so that all are >= 0."""
        bounds = ((name, self.least_of(name)) for name in size.variables())
        return substitute(size, {name: dim(name) + least for name, least in bounds if least})

    @cached_property
    def raised_facts(self) -> tuple[Size, ...]:
        """Sizes known to be >= 0, with each variable counted from its lower bound.

        Of an equality with floors, only the bounds learned from it take part.
        """
        smooth = [size for size in self.zero if not floors_of(size)]
        both = (*self.nonnegative, *smooth, *(-size for size in smooth))
        return tuple(map(self.raised, both))

    @cached_property
    def _multiples(self) -> dict[str, Dim]:
        """The variables of the program whose value starts with a quotient times something."""
        wholes = {name: size for name, size in self.values.items() if name not in self.quotients}
        return {
            name: whole
            for name, whole in wholes.items()
            if isinstance(whole, Dim)
            and not self.quotients.keys().isdisjoint(lead := leading_monomial(whole))
            and whole.terms[lead] > 0
        }

    @cached_property
    def _plain_values(self) -> dict[str, Size]:
        """The variables whose value has none."""
        return {name: size for name, size in self.values.items() if not self._has_quotient(size)}

    def _has_quotient(self, size: Size) -> bool:
        return not variables_of(size).isdisjoint(self.quotients)


def _factored(size: Size, whole: Dim, name: str) -> Size:
    """The size with `whole` written as the variable it is the value of."""
    share, rest = divide(size, whole)
    return size if share == 0 else _factored(share, whole, name) * dim(name) + rest
