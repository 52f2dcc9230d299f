"""Results of type rules for operands and attributes that are slightly wrong.

`inferred.snap` has of some samples the types that are inferred and the messages of changes that are
refused, and a checksum of those of all samples.

`python -m tests.dsl.ir.ops.inferred` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence

from meganeura_dsl.ir.graph import Array, Op, TypeRuleError
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from tests.dsl.ir.ops.test_soundness import APPLICATIONS, others, revised
from tests.samples import dtype_of
from tests.snapshots import Snapshot, Text

SHOWN = tuple(
    f"type rules: {name}"
    for name in (
        *("MatMul", "Conv-1d", "Where", "Concat-rows", "Gather-rows", "Pad", "DynamicUpdate"),
        *("Reshape", "ArgMax-rows", "Cumulative-sum-rows"),
    )
)
"""The samples of which is shown what their type rules say."""


def texts() -> Iterator[Text]:
    """Of each op's samples what is said of each change, in a line each."""
    for whole in APPLICATIONS:
        said = [f"{op}: {_said(op, whole.operands)}" for op in revised(whole.op)]
        for place, operand in enumerate(whole.operands):
            for other in others(operand):
                changed = (*whole.operands[:place], other, *whole.operands[place + 1 :])
                shapes = ", ".join(str(TensorType(dtype_of(x), x.shape)) for x in changed)
                said.append(f"{shapes}: {_said(whole.op, changed)}")
        yield Text("type rules", whole.name, "\n".join(said))


def _said(op: Op, operands: Sequence[Array]) -> str:
    types = [TensorType(dtype_of(each), each.shape) for each in operands]
    try:
        inferred = op.result_types(Facts(), *types)
    except (TypeRuleError, Unproved) as error:
        return f"refuses: {error}"
    picked = op.index_operands(*types)
    return f"takes: {', '.join(map(str, inferred))} {picked or ''} {op.flops(types, inferred[0])}"


SNAPSHOT = Snapshot("tests.dsl.ir.ops.inferred", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
