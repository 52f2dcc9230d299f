"""Parameters and states, as a constructor makes them."""

from collections.abc import Sequence
from typing import assert_never

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Sinusoids,
    Uniform,
    Zeros,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.static_code import written_static
from meganeura_runtime.export.source.text import SIGN, Code, binary, call, method
from meganeura_runtime.export.source.torch.sizes import size_text
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.trace import Event

DTYPES = {
    DType.BOOL: "torch.bool",
    DType.I32: "torch.int64",
    DType.U32: "torch.int64",
}
"""The types of PyTorch for truth values and whole numbers: an index is `int64` there."""


def declare(writer: TorchWriter, statement: ast.Declare) -> None:
    """Makes a parameter or a state in the constructor."""
    path = statement.path
    found = [
        (label, instance)
        for instance in writer.instances
        for label in instance.labels.get(statement, ())
    ]
    infos = [
        instance.frame.state.body.parameters[instance.frame.join(".".join(label.words))]
        for label, instance in found
    ]
    sizes: list[Code] = []
    for axis, entry in enumerate(statement.type.shape.entries):
        if isinstance(entry, ast.Rest):
            raise refuse(statement, "a parameter of any rank")
        try:
            sizes.append(written_static(writer, entry, "init"))
        except ProblemError:
            wanted = [
                (Event(label.names, instance), info.type.shape[axis])
                for (label, instance), info in zip(found, infos, strict=True)
            ]
            sizes.append(size_text(writer, statement, wanted, _sized_by(writer, entry)))
    initial = _initial(
        writer, statement, infos[0].initializer, sizes, {i.initializer for i in infos}
    )
    dtype = infos[0].type.dtype
    is_state = statement.kind == "state"
    if dtype is DType.BOOL or dtype.is_integer:
        shape = ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")
        number = 1 if isinstance(infos[0].initializer, Ones) else 0
        number = getattr(infos[0].initializer, "value", number)
        initial = call("torch.full", f"({shape})", str(number), dtype=DTYPES[dtype])
    elif dtype is not DType.F32:
        raise refuse(statement, f"a parameter of {dtype.value}")
    if {".".join(label.words) for label, _ in found} <= writer.inherited:
        pass
    elif is_state:
        writer.create(path, str(initial), "buffer")
    elif statement.kind == "frozen param":
        writer.create(path, f"nn.Parameter({initial}, requires_grad=False)", "parameter")
    else:
        writer.create(path, f"nn.Parameter({initial})", "parameter")


def _sized_by(writer: TorchWriter, entry: ast.Expression) -> tuple[ast.Expression, int] | None:
    """The tensor and the axis of `size(x, 2)`."""
    match entry:
        case ast.Call(
            callee="size", arguments=(ast.Argument(value=tensor), ast.Argument(value=at))
        ):
            axes = writer.seen.values(at) if not isinstance(at, ast.Rearrangement) else []
            if isinstance(tensor, ast.Name) and axes and isinstance(axes[0], int):
                return tensor, axes[0] % writer.seen.type_of(tensor).rank
        case _:
            pass
    return None


def _initial(
    writer: TorchWriter,
    statement: ast.Declare,
    initializer: Initializer,
    sizes: Sequence[Code],
    all_of_them: set[Initializer],
) -> Code:
    shape = ", ".join(map(str, sizes)) or "()"
    number = _initial_number(writer, statement, all_of_them)
    match initializer:
        case Zeros():
            return Code(f"torch.zeros({shape})")
        case Ones():
            return Code(f"torch.ones({shape})")
        case Full():
            inside = f"({shape},)" if len(sizes) == 1 else f"({shape})" if sizes else "()"
            return Code(f"torch.full({inside}, {number})")
        case Normal():
            drawn = Code(f"torch.randn({shape})")
            return drawn if number.text == "1.0" else binary("*", number, drawn)
        case Uniform():
            bound = number.within(SIGN)
            return method(Code(f"torch.empty({shape})"), "uniform_", f"-{bound}", number)
        case KaimingUniform():
            return Code(f"nn.init.kaiming_uniform_(torch.empty({shape}), a=math.sqrt(5))")
        case Sinusoids():
            writer.source.helper("sinusoids")
            return Code(f"sinusoids({shape})")
        case _:
            assert_never(initializer)


def _initial_number(
    writer: TorchWriter, statement: ast.Declare, initializers: set[Initializer]
) -> Code:
    """The number of an initial value, as it is written or, if that is always one, itself."""
    first = next(iter(initializers))
    number = next(
        (getattr(first, name) for name in ("std", "bound", "value") if hasattr(first, name)),
        0.0,
    )
    written = statement.initial
    if isinstance(written, ast.Call) and written.arguments:
        value = written.arguments[0].value
        assert not isinstance(value, ast.Rearrangement)
        if len(initializers) > 1 or not isinstance(value, ast.Real):
            try:
                return writer.static(value, "init")
            except ProblemError:
                if len(initializers) > 1:
                    raise
    if len(initializers) > 1:
        raise refuse(statement, "it begins as other numbers each time")
    return literal(number)
