"""The functions that the language starts from, as JAX has them."""

from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.creation import shape_items
from meganeura_runtime.export.source.functions.elementwise import as_float
from meganeura_runtime.export.source.functions.movement import joined
from meganeura_runtime.export.source.functions.table import Table
from meganeura_runtime.export.source.jax.jax_writer import JaxWriter
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code, call, tuple_text


def shape_of(arguments: Arguments) -> str:
    """The shape of a new tensor: a number, or several in brackets."""
    items = shape_items(arguments)
    if items is None:
        return str(arguments.static(0, "shape"))
    return items[0] if len(items) == 1 and items[0][0] != "*" else tuple_text(items)


def created(arguments: Arguments) -> Code:
    """Writes `zeros` and `ones`."""
    return call(f"jnp.{arguments.node.callee}", shape_of(arguments))


def drawn(arguments: Arguments) -> Code:
    """Writes random tensors, each of another key."""
    writer = arguments.writer
    assert isinstance(writer, JaxWriter)
    name = arguments.node.callee.removeprefix("random_")
    shape = shape_of(arguments)
    shape = f"({shape},)" if shape.isidentifier() or shape.isdigit() else shape
    return call(f"jax.random.{name}", f"next({writer.keys()})", shape)


def filled(arguments: Arguments) -> Code:
    """Writes `full`."""
    return call("jnp.full", shape_of(arguments), as_float(arguments.static(1, "value")))


def constant_tensor(arguments: Arguments) -> Code:
    """Writes a list of numbers as a tensor."""
    return arguments.writer.number(arguments.static(0, ""))


def in_order(arguments: Arguments) -> Code:
    """Writes `sort` and `argsort`."""
    axis = str(arguments.number(1, "axis", -1))
    named: dict[str, Code | str] = {} if axis == "-1" else {"axis": axis}
    if arguments.node_at(2, "descending") is not None:
        named["descending"] = arguments.static(2, "descending")
    if arguments.node.callee == "argsort":
        return call("jnp.argsort", arguments.tensor(0), stable="True", **named)
    arguments.writer.source.helper("sort")
    return call("sort", arguments.tensor(0), **named)


def top_k(arguments: Arguments) -> Code:
    """Writes `top_k`."""
    axis, last = arguments.number(2, "axis", -1), arguments.rank() - 1
    value, k = arguments.tensor(0), arguments.static(1, "k")
    if axis in (-1, last):
        return call("jax.lax.top_k", value, k)
    return call("jax.lax.top_k", value, k, axis=str(axis))


def cumulative(arguments: Arguments) -> Code:
    """Writes running sums, products and extremes."""
    name, axis = arguments.node.callee, arguments.number(1, "axis")
    if name in ("cumsum", "cumprod"):
        return call(f"jnp.{name}", arguments.tensor(0), axis=str(axis))
    return call(f"jax.lax.{name}", arguments.tensor(0), axis=str(axis % arguments.rank()))


def recurrence(arguments: Arguments) -> Code:
    """Writes `linear_recurrence` as a function of the file."""
    arguments.writer.source.helper("linear_recurrence")
    axis = str(arguments.number(2, "axis"))
    return call("linear_recurrence", arguments.tensor(0), arguments.tensor(1), axis=axis)


def repeated(arguments: Arguments) -> Code:
    """Writes `repeat`."""
    axis = arguments.static(1, "axis")
    return call("jnp.repeat", arguments.tensor(0), arguments.static(2, "times"), axis=axis)


def concatenated(arguments: Arguments) -> Code:
    """Writes `concat`."""
    whole, axis = joined(arguments)
    return call("jnp.concatenate", whole, axis=axis)


def padded(arguments: Arguments) -> Code:
    """Writes `pad` with zeros."""
    axis = arguments.number(1, "axis") % arguments.rank()
    ends = f"({arguments.static(2, 'before', '0')}, {arguments.static(3, 'after', '0')})"
    widths = [ends if at == axis else "(0, 0)" for at in range(arguments.rank())]
    return call("jnp.pad", arguments.tensor(0), tuple_text(widths))


def reversed_along(arguments: Arguments) -> Code:
    """Writes `reverse`."""
    return call("jnp.flip", arguments.tensor(0), str(arguments.number(1, "axis")))


def _new_rows(arguments: Arguments, size: Code, updates: Code) -> str:
    """The shape of what rows are put into: `size`, and the axes behind those of the ids."""
    rank = arguments.rank(0)
    if arguments.rank(1) == rank:
        return str(size)
    return f"({size}, *{updates}.shape[{rank}:])"


def scatter_add(arguments: Arguments) -> Code:
    """Writes `scatter_add`."""
    if arguments.number(3, "axis", 0) or arguments.number(4, "batch", 0):
        raise refuse(arguments.node, "a scatter along another axis than the first")
    ids = arguments.tensor(0)
    updates = arguments.writer.simple(arguments.tensor(1), "updates")
    shape = _new_rows(arguments, arguments.static(2, "size"), updates)
    empty = call("jnp.zeros", shape, f"{updates}.dtype")
    return Code(f"{empty}.at[{ids}].add({updates})")


def scatter_extreme(arguments: Arguments) -> Code:
    """Writes `scatter_max` and `scatter_min`."""
    if arguments.number(4, "axis", 0) or arguments.number(5, "batch", 0):
        raise refuse(arguments.node, "a scatter along another axis than the first")
    arguments.writer.source.helper("scatter_extreme")
    ids = arguments.tensor(0)
    updates, size = arguments.tensor(1), arguments.static(2, "size")
    word = arguments.node.callee.removeprefix("scatter_")
    empty = as_float(arguments.static(3, "empty"))
    return call("scatter_extreme", ids, updates, size, empty, f'"{word}"')


def one_hot(arguments: Arguments) -> Code:
    """Writes `one_hot`."""
    return call("jax.nn.one_hot", arguments.tensor(0), arguments.static(1, "classes"))


_GEOMETRY = ("stride", "pad", "dilation", "groups")


def convolved(arguments: Arguments) -> Code:
    """Writes a convolution, as a function of the file."""
    name = arguments.node.callee
    arguments.writer.source.helper("of_axes")
    arguments.writer.source.helper(name)
    wanted = [*_GEOMETRY, *(["output_pad"] if name == "conv_transpose" else [])]
    named = {
        each: arguments.static(place, each)
        for place, each in enumerate(wanted, 2)
        if arguments.node_at(place, each) is not None
    }
    return call(name, arguments.tensor(0), arguments.tensor(1), **named)


def window_max(arguments: Arguments) -> Code:
    """Writes the largest element of each window, as a function of the file."""
    arguments.writer.source.helper("of_axes")
    arguments.writer.source.helper("window_max")
    window = arguments.static(1, "k")
    stride = arguments.static(2, "stride", str(window))
    pad = arguments.static(3, "pad", "0")
    return call("window_max", arguments.tensor(0), window, stride, pad)


TABLE: Table = {
    "sort": in_order,
    "argsort": in_order,
    "top_k": top_k,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), cumulative),
    "linear_recurrence": recurrence,
    "repeat": repeated,
    "concat": concatenated,
    "pad": padded,
    "reverse": reversed_along,
    "scatter_add": scatter_add,
    "scatter_max": scatter_extreme,
    "scatter_min": scatter_extreme,
    "one_hot": one_hot,
    **dict.fromkeys(("zeros", "ones"), created),
    **dict.fromkeys(("random_uniform", "random_normal"), drawn),
    "full": filled,
    "constant": constant_tensor,
    "conv": convolved,
    "conv_transpose": convolved,
    "window_max": window_max,
}

HELPERS = {
    "random_keys": '''\
def random_keys(key):
    """Keys for random numbers, one after the other."""
    while True:
        key, new = jax.random.split(key)
        yield new
''',
    "conv": '''\
def conv(x, weight, stride=1, pad=0, dilation=1, groups=1):
    """[n, c_in, ...s] and [c, c_in // groups, ...k] -> [n, c, ...]"""
    axes = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x,
        weight,
        of_axes(stride, axes),
        [(each, each) for each in of_axes(pad, axes)],
        rhs_dilation=of_axes(dilation, axes),
        feature_group_count=groups,
    )
''',
    "conv_transpose": '''\
def conv_transpose(x, weight, stride=1, pad=0, dilation=1, groups=1, output_pad=0):
    """[n, c_in, ...s] and [c_in, c // groups, ...k] -> [n, c, ...], a convolution's gradient."""
    c_in, c, *window = weight.shape
    axes = len(window)
    weight = weight.reshape(groups, c_in // groups, c, *window).swapaxes(1, 2)
    weight = jnp.flip(weight.reshape(groups * c, c_in // groups, *window), range(2, 2 + axes))
    dilations = of_axes(dilation, axes)
    pads = zip(window, dilations, of_axes(pad, axes), of_axes(output_pad, axes), strict=True)
    return jax.lax.conv_general_dilated(
        x,
        weight,
        (1,) * axes,
        [(d * (k - 1) - p, d * (k - 1) - p + more) for k, d, p, more in pads],
        lhs_dilation=of_axes(stride, axes),
        rhs_dilation=dilations,
        feature_group_count=groups,
    )
''',
    "window_max": '''\
def window_max(x, k, stride, pad):
    """The largest element of each window of the axes behind [n, c]."""
    axes = x.ndim - 2
    sizes, strides = (1, 1, *of_axes(k, axes)), (1, 1, *of_axes(stride, axes))
    around = [(0, 0), (0, 0), *((each, each) for each in of_axes(pad, axes))]
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, sizes, strides, around)
''',
    "of_axes": '''\
def of_axes(value, axes):
    """A number for each axis: the same for all, unless there is a list of them."""
    return list(value) if isinstance(value, list | tuple) else [value] * axes
''',
    "sort": '''\
def sort(x, axis=-1, descending=False):
    """x in order along an axis, and where each element was."""
    places = jnp.argsort(x, axis, stable=True, descending=descending)
    return jnp.take_along_axis(x, places, axis), places
''',
    "scatter_extreme": '''\
def scatter_extreme(ids, updates, size, empty, kind):
    """The largest or smallest of the updates of each id; `empty` where there is none."""
    shape = (size, *updates.shape[ids.ndim :])
    worst = -jnp.inf if kind == "max" else jnp.inf
    found = getattr(jnp.full(shape, worst, updates.dtype).at[ids], kind)(updates)
    count = jnp.zeros(size, int).at[ids].add(1).reshape(size, *[1] * (len(shape) - 1))
    return jnp.where(count > 0, found, empty)
''',
    "linear_recurrence": '''\
def linear_recurrence(a, b, axis):
    """h with h[t] = a[t] h[t - 1] + b[t] along an axis, where h[-1] = 0."""

    def join(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return jax.lax.associative_scan(join, (a, b), axis=axis)[1]
''',
}
"""Functions that the language has and JAX has not, as text."""
