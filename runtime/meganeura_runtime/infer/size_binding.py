"""Binds the symbolic sizes of a model to those of its inputs."""

from collections.abc import Iterable, Mapping, Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Dim, Size, evaluate
from meganeura_runtime.infer.inference_problems import InputShape, OpenSize, WrongInputs
from meganeura_runtime.infer.shape_hints import shape_hint

CHOSEN = "the command line"


def check_names(given: Iterable[str], declared: Mapping[str, TensorType]) -> None:
    """Raise `ProblemError` unless exactly the declared inputs are given."""
    names = set(given)
    missing = tuple(name for name in declared if name not in names)
    unknown = tuple(sorted(names - declared.keys()))
    if missing or unknown:
        types = tuple((name, str(type_)) for name, type_ in declared.items())
        raise ProblemError(WrongInputs(missing, unknown, types))


def bind_sizes(
    declared: Mapping[str, TensorType],
    given: Mapping[str, Sequence[int]],
    chosen: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The numbers of all open sizes, for inputs of these shapes; raises `ProblemError`."""
    check_names(given, declared)
    sizes = Sizes(chosen or {})
    pending = [(name, axis) for name, type_ in declared.items() for axis in range(len(type_.shape))]
    for name, type_ in declared.items():
        if len(given[name]) != len(type_.shape):
            raise ProblemError(_mismatch(name, given[name], type_, sizes))
    # A size such as `2 * n` may become known only after one further to the right.
    for _ in range(len(pending) + 1):
        for name, axis in pending:
            sizes.learn(declared[name].shape[axis], given[name][axis], f"`{name}`")
    for name, type_ in declared.items():
        for size, number in zip(type_.shape, given[name], strict=True):
            open_ = sizes.open_names(size)
            if open_ and sizes.slope(size, open_) is None:
                raise ProblemError(OpenSize(open_[0]))
            if open_ or evaluate(size, sizes.known) != number:
                raise ProblemError(_mismatch(name, given[name], type_, sizes))
    return sizes.known


class Sizes:
    """The numbers found so far, and where each is from."""

    def __init__(self, chosen: Mapping[str, int]) -> None:
        self.known = dict(chosen)
        self.origins = dict.fromkeys(chosen, CHOSEN)

    def open_names(self, size: Size) -> list[str]:
        """The names in a size that have no number yet."""
        return sorted(size.variables() - self.known.keys()) if isinstance(size, Dim) else []

    def number(self, size: Size, but: str) -> int | None:
        """The number of a size, by all origins but one; None if a name of it is open."""
        names = size.variables() if isinstance(size, Dim) else frozenset[str]()
        is_open = any(self.origins.get(each, but) == but for each in names)
        return None if is_open else evaluate(size, self.known)

    def learn(self, size: Size, number: int, origin: str) -> None:
        """Bind the only open name of a size to the only number that fits, if there is one."""
        names = self.open_names(size)
        slope = self.slope(size, names)
        if slope is None:
            return
        one = evaluate(size, {**self.known, names[0]: 1})
        found = (number - one) // slope + 1
        if found >= 1 and evaluate(size, {**self.known, names[0]: found}) == number:
            self.known[names[0]] = found
            self.origins[names[0]] = origin

    def slope(self, size: Size, names: Sequence[str]) -> int | None:
        """Returns the growth of a size with the one open name, if it is constant."""
        if len(names) != 1:
            return None
        one, two, three = (evaluate(size, {**self.known, names[0]: at}) for at in (1, 2, 3))
        return two - one if two != one and three - two == two - one else None


def _mismatch(name: str, given: Sequence[int], wanted: TensorType, sizes: Sizes) -> InputShape:
    used = {each for size in wanted.shape if isinstance(size, Dim) for each in size.variables()}
    known = tuple(
        (each, sizes.known[each], sizes.origins[each]) for each in sorted(used & sizes.known.keys())
    )
    return InputShape(name, str(list(given)), str(wanted), known, _hint(name, given, wanted, sizes))


def _hint(name: str, given: Sequence[int], wanted: TensorType, sizes: Sizes) -> str:
    numbers = [sizes.number(size, but=f"`{name}`") for size in wanted.shape]
    return shape_hint(name, given, wanted.shape, numbers)
