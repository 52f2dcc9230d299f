"""One case of a subject: a configuration, sizes and numbers, drawn by Hypothesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import reject
from hypothesis import strategies as st

from meganeura_dsl.elaborate.declarations.block_domain import BlockDomain, DomainInput, block_domain
from meganeura_dsl.elaborate.declarations.models import Elaboration, Inputs, elaborate_block
from meganeura_dsl.elaborate.typecheck.config_kinds import alternatives
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import REST_RANKS, rest_names
from meganeura_dsl.elaborate.values import Opaque, OpenText, StaticValue, is_initializer
from meganeura_dsl.gradcheck.random_reals import choose_reals
from meganeura_dsl.gradcheck.random_sizes import MOST, Choose, DeadEndError, choose_sizes, chooser
from meganeura_dsl.gradcheck.subjects import Subject
from meganeura_dsl.ir.initializers import spell
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.limits.language_limits import MOST_PATHS
from meganeura_dsl.symbolic.assumptions import Flag
from meganeura_dsl.symbolic.size import Dim, evaluate
from meganeura_dsl.syntax import ast

PERCENT = (100, 50, 75)
"""Real numbers, in percent of their default or of the largest that is drawn."""
SEEDS = range(2**16)
TRAINING = "training"
"""The flag of facts that hold in one mode only."""


@dataclass(frozen=True)
class Case:
    """All that decides the graph of a subject and the numbers it is fed."""

    subject: Subject
    config: Mapping[str, StaticValue]
    sizes: Mapping[str, int]
    inputs: tuple[tuple[str, TensorType], ...]
    training: bool
    seed: int

    def elaborate(self) -> Elaboration:
        """The graph. Raises `ProblemError`."""
        return elaborate_block(
            self.subject.module,
            self.subject.block,
            config=self.config,
            inputs=Inputs(tuple(each for _, each in self.inputs)),
            training=self.training,
        )

    @property
    def snippet(self) -> str:
        """A model of this configuration, as a line of a program."""
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.config.items())
        return f"model reproducer = {self.subject.block.name.text}({arguments})"


def choose_case(choose: Choose, subject: Subject, most: int = MOST) -> Case:
    """A case of a subject.

    Raises `DeadEndError` where choices lead nowhere, `ProblemError` or `UndecidableError` where the
    subject has no cases at all.
    """
    block = subject.block
    ranks = {name: choose(REST_RANKS) for name in rest_names(block)}
    given: dict[str, StaticValue] = {
        **subject.given,
        **{name: bool(choose((0, 1))) for name in sorted(subject.truths)},
        **{name: _list(choose, largest) for name, largest in subject.lists.items()},
        **{name: _table(choose, rows) for name, rows in subject.tables.items()},
    }
    reals = {name: subject.largest_real * choose(PERCENT) / 100 for name in sorted(subject.reals)}
    given |= choose_reals(choose, subject.module, block, reals, given)
    alternative = choose(range(len(alternatives(block))))
    domain = _domain(subject, ranks, given, alternative)
    if domain.has_paths:
        decided = [bool(choose((1, 0))) for _ in range(MOST_PATHS.bit_length())]
        domain = _domain(subject, ranks, given, alternative, decided)
    if domain.facts.is_contradictory:
        raise DeadEndError(block.name.text)
    found = choose_sizes(choose, domain.facts, domain.sizes, domain.flags, most)
    config = {
        name: _argument(choose, block, name, value, found) for name, value in domain.config.items()
    }
    open_reals = {
        name: number
        for name, number in config.items()
        if isinstance(domain.config[name], Opaque) and isinstance(number, float)
    }
    config |= choose_reals(choose, subject.module, block, open_reals, {**found, **config})
    drawn = {name: found[name] for name in domain.sizes if name not in config}
    inputs = _inputs(choose, domain, found)
    training = found[TRAINING] if TRAINING in found else choose((0, 1))
    return Case(subject, config, drawn, inputs, bool(training), choose(SEEDS))


@st.composite
def cases(draw: st.DrawFn, subject: Subject, most: int = MOST) -> Case:
    """Cases of a subject, as `choose_case` with Hypothesis; dead ends are rejected."""
    try:
        return choose_case(chooser(draw), subject, most)
    except DeadEndError:
        reject()


def _domain(
    subject: Subject,
    ranks: Mapping[str, int],
    given: Mapping[str, StaticValue],
    alternative: int,
    decided: Sequence[bool] = (),
) -> BlockDomain:
    """Returns the domain of the remaining choices, one object for equal choices so far."""
    key = repr((ranks, subject.drawn(given), alternative, decided))
    if key not in subject.domains:
        case = alternatives(subject.block)[alternative].values
        subject.domains[key] = block_domain(
            subject.module, subject.block, ranks, given,
            case=case, decided=decided, defaults=subject.is_model,
        )  # fmt: skip
    return subject.domains[key]


def _list(choose: Choose, largest: tuple[int, ...]) -> StaticValue:
    return [choose(range(1, min(2, item) + 1)) for item in largest]


def _table(choose: Choose, rows: tuple[tuple[int, ...], ...]) -> StaticValue:
    return [[choose((1, item)) for item in row] for row in rows]


def _argument(
    choose: Choose, block: ast.Block, name: str, value: StaticValue, found: Mapping[str, int]
) -> StaticValue:
    """Returns the argument for one parameter of the configuration."""
    match value:
        case Flag():
            return bool(found[name])
        case Opaque():
            (parameter,) = (each for each in block.parameters if each.name == name)
            default = parameter.default
            number = default.value if isinstance(default, ast.Real) else 1.0
            return number * choose(PERCENT) / 100
        case int() if value < 0:  # an axis, counted from the last
            return choose((value, 0))
        case Dim():
            return evaluate(value, found)
        case list():
            return [_argument(choose, block, name, item, found) for item in value]
        case OpenText():
            return choose_text(choose)
        case _:
            return value


def choose_text(choose: Choose) -> str:
    """A text for a parameter that takes any."""
    return "ab"[: choose((1, 2, 0))]


def _inputs(
    choose: Choose, domain: BlockDomain, found: Mapping[str, int]
) -> tuple[tuple[str, TensorType], ...]:
    """Types for the inputs. One of any element type is like the first, or holds its labels."""
    inputs: list[tuple[str, TensorType]] = []
    for item in domain.inputs:
        if item.dtype is not None or not inputs:
            inputs.append((item.name, _type(item, item.dtype or DType.F32, found)))
        else:
            first = inputs[0][1]
            labels = TensorType(DType.I32, first.shape[:-1])
            inputs.append((item.name, (first, labels)[choose((0, 1))]))
    return tuple(inputs)


def _type(item: DomainInput, dtype: DType, found: Mapping[str, int]) -> TensorType:
    shape = tuple(evaluate(size, found) for size in item.shape)
    if any(size < 1 for size in shape):
        raise DeadEndError(item.name)
    return TensorType(dtype, shape)


def _written(value: StaticValue) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case str():
            return f'"{value}"'
        case _ if is_initializer(value):
            return spell(value)
        case _:
            return str(value)
