"""The formulas of ops, of which rules and pullbacks are proved, are the reference of each op."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import numpy as np

from meganeura_dsl.ir.graph import Builder, Op
from meganeura_dsl.ir.interpreter import Precision, evaluate
from meganeura_dsl.ir.ops import OPS, Input, Scan
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.ops.fused.winograd import Winograd
from meganeura_dsl.ir.types import DType, TensorType
from tests.dsl.ir.ops.fused.test_fused import CASES
from tests.effort import effort
from tests.folded import each_of
from tests.proofs.exact import MEANINGS, Array, Interpreted, formula, interpret
from tests.proofs.opinions import Floats, value_of
from tests.proofs.winograd import exact_matrices
from tests.samples import SAMPLES

Example = tuple[str, Op, Sequence[TensorType], Sequence[Array]]
WITHOUT_FORMULA = {
    "Input": "a leaf", "Parameter": "a leaf", "RandomBits": "no rule or gradient reads them",
    "FloorDivide": "of integers alone", "Remainder": "of integers alone",
    "Dequantize": "of integers alone", "Scan": "its body is interpreted",
}  # fmt: skip
EXAMPLES: list[Example] = [
    *(
        (each.name, each.op, each.types, each.operands)
        for each in SAMPLES
        if type(each.op).__name__ not in WITHOUT_FORMULA or isinstance(each.op, Scan)
        if each.name != "Constant-inf"  # which is no real number
    ),
    *(
        (str(each), each.op, each.types(), each.arrays())
        for each in CASES
        if type(each.op).__name__ not in WITHOUT_FORMULA
    ),
]
PLACES = effort(1, 20)
"""Elements of each result that are compared."""


class Numbers(Interpreted, Floats):
    """Floats, and the least and the largest number of a type where nothing was chosen of it."""

    def __init__(self) -> None:
        Interpreted.__init__(self)

    def number(self, value: Fraction | int) -> float:
        """Integers stay exact, of any size."""
        return int(value) if value == int(value) else float(value)

    def element(self, name: str, index: Sequence[int]) -> float:
        found = super().element(name, index)
        return found.item() if isinstance(found, np.generic) else found

    def named(self, name: str) -> float:
        kind, _, of = name.partition(" of no ")
        if of == "f32":
            return -np.inf if kind == "max" else np.inf
        limits = np.iinfo({"i32": np.int32, "u32": np.uint32}[of])
        return float(limits.min if kind == "max" else limits.max)

    def function(self, name: str, x: float) -> float:
        match name.split():
            case "as", "bool":
                return float(x != 0)
            case "as", _:
                return float(int(x))
            case _:
                return Floats.function(self, name, x)


@each_of("example", EXAMPLES, ids=lambda example: example[0])
def test_a_formula_is_the_reference(example: Example) -> None:
    """Of a loop, whose body is interpreted, all results are compared."""
    name, op, types, operands = example
    build, field, random = Builder(), Numbers(), Random(name)
    feeds = {f"x{place}": each for place, each in enumerate(operands)}
    leaves = [build.add(Input(f"x{place}", of.dtype, of.shape)) for place, of in enumerate(types)]
    values = build.add_all(op, *leaves)
    graph = build.graph({str(each.index): each for each in values})
    outputs = evaluate(graph, feeds, Precision.DOUBLE).outputs
    interpreted = interpret(values, feeds, field) if isinstance(op, Scan) else {}
    matrices = exact_matrices(op.outputs) if isinstance(op, Winograd) else {}
    field.arrays = feeds | {each: np.array(matrix, float) for each, matrix in matrices.items()}
    for value in values:
        wanted = outputs[str(value.index)]
        every = [*np.ndindex(*wanted.shape)]
        for place in random.sample(every, min(PLACES, len(every))):
            if isinstance(op, Scan):
                found = interpreted[value.id][place]
            else:
                found = value_of(formula(op, types, value.index).at(place), {}, {}, field)
            if value.type.dtype is DType.U32:
                found %= 2**32
            np.testing.assert_allclose(found, wanted[place], 1e-9, 1e-9)


def test_every_op_has_a_formula_or_a_reason() -> None:
    named = {name.partition("_")[0] for name in MEANINGS}
    assert named | WITHOUT_FORMULA.keys() == {op.__name__ for op in (*OPS, *FUSED_OPS)}
    assert named.isdisjoint(WITHOUT_FORMULA)
