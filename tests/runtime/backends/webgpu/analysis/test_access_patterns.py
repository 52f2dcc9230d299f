"""Access patterns of values."""

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Concat,
    Gather,
    Input,
    MatMul,
    Mul,
    Reshape,
    Slice,
    Sum,
    Transpose,
)
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.analysis.access_patterns import access_patterns


class Net:
    """Inputs a, b, ... and what is made of them."""

    def __init__(self) -> None:
        self.build = Builder()
        self.stored: dict[int, str] = {}

    def input(self, name: str, *shape: int, dtype: DType = DType.F32) -> Value:
        value = self.build.add(Input(name, dtype, shape))
        self.stored[value.id] = name
        return value

    def reads(self, value: Value) -> tuple[set[str], set[str]]:
        """The names read at the element's own position, and at others."""
        found = access_patterns(value, self.stored)
        aligned = {self.stored[number] for number in found.aligned}
        return aligned, {self.stored[number] for number in found.elsewhere}


def test_elementwise_values_are_aligned_whatever_their_shape() -> None:
    net = Net()
    a, b = net.input("a", 6), net.input("b", 2, 3)
    total = net.build.add(Add(), net.build.add(Reshape((2, 3)), a), b)
    assert net.reads(total) == ({"a", "b"}, set())


def test_moved_and_spread_values_are_read_elsewhere() -> None:
    net = Net()
    a, b = net.input("a", 3, 3), net.input("b", 3)
    spread = net.build.add(Broadcast((3, 3), (1,)), b)
    turned = net.build.add(Transpose((1, 0)), a)
    both = net.build.add(Mul(), net.build.add(Mul(), turned, a), spread)
    assert net.reads(both) == ({"a"}, {"a", "b"})


def test_ids_are_read_too() -> None:
    net = Net()
    table, ids = net.input("table", 5, 2), net.input("ids", 3, dtype=DType.I32)
    assert net.reads(net.build.add(Gather(0), table, ids)) == (set(), {"table", "ids"})


def test_a_reduction_reads_its_own_row_in_place() -> None:
    net = Net()
    a, scale = net.input("a", 3, 4), net.input("scale", 3)
    scaled = net.build.add(Mul(), a, net.build.add(Broadcast((3, 4), (0,)), scale))
    assert net.reads(net.build.add(Sum((1,)), scaled)) == ({"scale"}, {"a"})


def test_a_contraction_reads_everything_elsewhere() -> None:
    net = Net()
    a, b = net.input("a", 3, 3), net.input("b", 3, 3)
    assert net.reads(net.build.add(MatMul(), a, b)) == (set(), {"a", "b"})


def test_a_part_that_is_never_chosen_counts_as_read() -> None:
    net = Net()
    joined = net.build.add(Concat(0), net.input("a", 4), net.input("b", 5))
    first = net.build.add(Slice((0,), (4,), (1,)), joined)
    aligned, elsewhere = net.reads(first)
    assert aligned | elsewhere == {"a", "b"}
