"""Axes that are split, joined and repeated, by `reshape` and `broadcast_to`."""

from collections.abc import Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Axis, Groups
from meganeura_runtime.export.source.jax.jax_writer import JaxWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import (
    ATOM,
    PRODUCT,
    Code,
    binary,
    call,
    method,
    tuple_text,
)

_OWN = "@.shape"
"""The shape of the tensor itself, until it has a name."""


def split(writer: JaxWriter, node: ast.Node, value: Code, groups: Groups) -> Code:
    """A tensor with an axis for each of a group; an empty group was one of 1."""
    if all(len(group) == 1 for group in groups):
        return value
    if all(len(group) <= 1 for group in groups):
        return _indexed(value, ["0" if not group else ":" for group in groups])
    sizes: list[Code] = []
    for place, group in enumerate(groups):
        whole = Code(f"{_OWN}[{place}]")
        known = [each.size for each in group if each.size is not None]
        if len(group) - len(known) > 1:
            raise refuse(node, "an axis is split into unknown sizes")
        rest = whole if not known else binary("//", whole, _product(known))
        sizes += [rest if each.size is None else each.size for each in group]
    return _reshaped(writer, value, sizes)


def merge(writer: JaxWriter, value: Code, groups: Groups) -> Code:
    """A tensor with each group as one axis; an empty group is one of 1."""
    if all(len(group) == 1 for group in groups):
        return value
    if all(len(group) <= 1 for group in groups):
        return _indexed(value, ["None" if not group else ":" for group in groups])
    sizes: list[Code] = []
    first, place = -1, 0
    for at, group in enumerate(groups):
        items = [_size_at(each, place + k) for k, each in enumerate(group)]
        sizes.append(_product(items) if items else Code("1"))
        first = at if first < 0 and len(group) > 1 else first
        place += len(group)
    sizes[first] = Code("-1")
    return _reshaped(writer, value, sizes)


def repeat(writer: JaxWriter, value: Code, sizes: Sequence[Code | None]) -> Code:
    """A tensor repeated along axes of 1 and before its first; None is an axis that it has."""
    known = [
        Code(f"{_OWN}[{at - len(sizes)}]") if each is None else each
        for at, each in enumerate(sizes)
    ]
    value, known = _named(writer, value, known)
    return call("jnp.broadcast_to", value, tuple_text(known))


def _size_at(axis: Axis, place: int) -> Code:
    return Code(f"{_OWN}[{place}]") if axis.size is None else axis.size


def _product(sizes: Sequence[Code]) -> Code:
    found = sizes[0]
    for each in sizes[1:]:
        found = binary("*", found, each)
    return Code(found.text, PRODUCT) if len(sizes) > 1 else found


def _indexed(value: Code, entries: list[str]) -> Code:
    while entries[-1] == ":":
        entries.pop()
    return Code(f"{value.within(ATOM)}[{', '.join(entries)}]")


def _reshaped(writer: JaxWriter, value: Code, sizes: list[Code]) -> Code:
    """A tensor with axes of other sizes, one of which is -1 where it is not known."""
    if all(each.text != "-1" for each in sizes):
        unknown = [at for at, each in enumerate(sizes) if _OWN in each.text]
        split = [at for at in unknown if "//" in sizes[at].text]
        for at in (split or unknown)[:1]:
            sizes[at] = Code("-1")
    value, sizes = _named(writer, value, sizes)
    return method(value, "reshape", *sizes)


def _named(writer: JaxWriter, value: Code, sizes: Sequence[Code]) -> tuple[Code, list[Code]]:
    """A tensor and sizes, for which it has a name where they read its shape.

    Sizes of neighbours are read together: `*x.shape[:2]`.
    """
    if any(_OWN in each.text for each in sizes):
        value = writer.simple(value, "y")
    found: list[Code] = []
    run: list[int] = []
    for each in [*sizes, Code("")]:
        number = each.text.removeprefix(f"{_OWN}[").removesuffix("]")
        is_own = each.text == f"{_OWN}[{number}]"
        if run and (not is_own or int(number) != run[-1] + 1):
            start, stop = run[0] or "", run[-1] + 1 or ""
            one = f"{value}.shape[{run[0]}]"
            found.append(Code(one if len(run) == 1 else f"*{value}.shape[{start}:{stop}]"))
            run = []
        if is_own:
            run.append(int(number))
        elif each.text:
            found.append(Code(each.text.replace("@", value.text), each.binds))
    return value, found
