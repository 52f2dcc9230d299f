"""What type rules say of operands and attributes that are slightly wrong, in a line each.

`inferred.sums` has of each op's sample how many changes are taken, and a checksum of the types that
are inferred and of the messages of those that are refused.

`python -m tests.dsl.ir.ops.inferred` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from meganeura_dsl.ir.graph import Array, Op, TypeRuleError
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from tests.dsl.ir.ops.test_soundness import APPLICATIONS, others, revised
from tests.samples import dtype_of

FILE = Path(__file__).with_suffix(".sums")


def described() -> Iterator[str]:
    """All lines of the file."""
    for whole in APPLICATIONS:
        said = [_said(op, whole.operands) for op in revised(whole.op)]
        for place, operand in enumerate(whole.operands):
            for other in others(operand):
                changed = (*whole.operands[:place], other, *whole.operands[place + 1 :])
                said.append(_said(whole.op, changed))
        taken = sum(each.startswith("takes") for each in said)
        yield f"{whole.name} {taken} of {len(said)} {crc32(chr(10).join(said).encode()):08x}"


def _said(op: Op, operands: Sequence[Array]) -> str:
    types = [TensorType(dtype_of(each), each.shape) for each in operands]
    try:
        inferred = op.result_types(Facts(), *types)
    except (TypeRuleError, Unproved) as error:
        return f"refuses: {error}"
    picked = op.picks(*types)
    return f"takes: {', '.join(map(str, inferred))} {picked or ''} {op.flops(types, inferred[0])}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
