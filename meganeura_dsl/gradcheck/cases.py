"""One case of a subject: a configuration, sizes and numbers, drawn by Hypothesis."""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import reject
from hypothesis import strategies as st

from meganeura_dsl.check.domain import BlockDomain, DomainInput, block_domain
from meganeura_dsl.check.models import Elaboration, elaborate_block
from meganeura_dsl.check.symbols import REST_RANKS, rest_names
from meganeura_dsl.check.values import Static, Unknown
from meganeura_dsl.gradcheck.sizes import MOST, sizes
from meganeura_dsl.gradcheck.subjects import Subject
from meganeura_dsl.shapes.dim import evaluate
from meganeura_dsl.shapes.solve import Flag
from meganeura_dsl.shapes.tensor import DType, TensorType
from meganeura_dsl.syntax import ast

SCALES = (1.0, 0.5, 0.75)
"""What the default of a real number is multiplied by."""
LAST_SEED = 2**16 - 1


@dataclass(frozen=True)
class Case:
    """All that decides the graph of a subject and the numbers it is fed."""

    subject: Subject
    config: Mapping[str, Static]
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
            inputs=tuple(each for _, each in self.inputs),
            training=self.training,
        )

    @property
    def snippet(self) -> str:
        """A model of this configuration, as a line of a program."""
        arguments = ", ".join(f"{name}={_written(value)}" for name, value in self.config.items())
        return f"model reproducer = {self.subject.block.name.text}({arguments})"


@st.composite
def cases(draw: st.DrawFn, subject: Subject, most: int = MOST) -> Case:
    """Cases of a subject. Raises `ProblemError` or `UndecidableError` where it has none."""
    block = subject.block
    ranks = {name: draw(st.sampled_from(REST_RANKS)) for name in rest_names(block)}
    given = {
        **subject.given,
        **{name: draw(st.booleans()) for name in sorted(subject.truths)},
        **{name: _list(draw, largest) for name, largest in subject.lists.items()},
    }
    domain = block_domain(subject.module, block, ranks, given, defaults=subject.is_model)
    found = draw(sizes(domain.facts, domain.sizes, domain.flags, most))
    config = {
        name: _argument(draw, block, name, value, found) for name, value in domain.config.items()
    }
    drawn = {name: found[name] for name in domain.sizes if name not in config}
    inputs = _inputs(draw, domain, found)
    return Case(
        subject, config, drawn, inputs, draw(st.booleans()), draw(st.integers(0, LAST_SEED))
    )


def _list(draw: st.DrawFn, largest: tuple[int, ...]) -> Static:
    return [draw(st.integers(1, min(2, item))) for item in largest]


def _argument(
    draw: st.DrawFn, block: ast.Block, name: str, value: Static, found: Mapping[str, int]
) -> Static:
    """What is given for one parameter of the configuration."""
    match value:
        case Flag():
            return bool(found[name])
        case Unknown():
            (parameter,) = (each for each in block.parameters if each.name == name)
            match parameter.default:
                case ast.Real(value=number):
                    return number * draw(st.sampled_from(SCALES))
                case _:
                    return draw(st.sampled_from(SCALES))
        case int() if value < 0:  # an axis, counted from the last
            return draw(st.sampled_from((value, 0)))
        case _:
            return found.get(name, value)


def _inputs(
    draw: st.DrawFn, domain: BlockDomain, found: Mapping[str, int]
) -> tuple[tuple[str, TensorType], ...]:
    """Types for the inputs. One of any element type is like the first, or holds its labels."""
    inputs: list[tuple[str, TensorType]] = []
    for item in domain.inputs:
        if item.dtype is not None:
            inputs.append((item.name, _type(item, item.dtype, found)))
        elif not inputs:
            inputs.append((item.name, _type(item, DType.F32, found)))
        else:
            first = inputs[0][1]
            labels = TensorType(DType.I32, first.shape[:-1])
            inputs.append((item.name, draw(st.sampled_from((first, labels)))))
    return tuple(inputs)


def _type(item: DomainInput, dtype: DType, found: Mapping[str, int]) -> TensorType:
    shape = tuple(evaluate(size, found) for size in item.shape)
    if any(size < 1 for size in shape):
        reject()
    return TensorType(dtype, shape)


def _written(value: Static) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case str():
            return f'"{value}"'
        case _:
            return str(value)
