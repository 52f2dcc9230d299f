"""States that count steps: the host adds to them, and nobody sees a difference."""

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import Add, Broadcast, Cast, Constant, Input, Mul, Parameter
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.analysis.step_counters import counters_of
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.open_device import XlaDevice

LARGEST = 2**31 - 1
STARTS: dict[str, Array] = {
    "batches": np.array(5, np.int32),
    "twos": np.array(LARGEST, np.int32),
    "shown": np.array(1, np.int32),
    "vector": np.arange(2, dtype=np.int32),
    "float": np.array(0.5, np.float32),
}
DTYPES = {"i": DType.I32, "f": DType.F32}


def counting() -> Graph:
    """Counters, one of which is an output, one a vector, and one a float."""
    build = Builder()
    x = build.add(Input("x", DType.F32, ()))
    states = {
        name: build.add(Parameter(name, DTYPES[start.dtype.kind], start.shape, "state"))
        for name, start in STARTS.items()
    }
    one, two = (build.add(Constant(number, DType.I32)) for number in (1, 2))
    updates = {
        "batches": build.add(Add(), states["batches"], one),
        "twos": build.add(Add(), two, states["twos"]),
        "shown": build.add(Add(), states["shown"], one),
        "vector": build.add(Add(), states["vector"], build.add(Broadcast((2,), ()), one)),
        "float": build.add(Add(), states["float"], build.add(Constant(1.0, DType.F32))),
    }
    shown = build.add(Cast(DType.F32), updates["shown"])
    return build.graph({"y": build.add(Mul(), x, shown)}, updates)


def reading() -> Graph:
    """A step that reads the counters, and changes nothing."""
    build = Builder()
    states = {
        name: build.add(Parameter(name, DTYPES[start.dtype.kind], start.shape, "state"))
        for name, start in STARTS.items()
    }
    return build.graph({"y": build.add(Cast(DType.F32), states["batches"])})


def device() -> XlaDevice:
    found = choose_device("xla:cpu")
    assert isinstance(found, XlaDevice)
    return found


def test_what_only_counts_is_left_to_the_host() -> None:
    program = device().program(counting())
    assert program.counters == counters_of(counting()) == {"batches": 1, "twos": 2}
    assert len(program.graph.updates) == 5


def results() -> list[Array]:
    feeds = {"x": np.array(1, np.float32)}
    with device().open(counting()) as session, device().open(reading()) as other:
        session.load(STARTS)
        other.share(session)
        found = [session.step(feeds)["y"] for _ in range(3)]
        found += [session.read("batches"), session.read("twos")]
        session.step(feeds)
        found.append(other.step({})["y"])
        session.write("batches", np.array(100, np.int32))
        session.step(feeds)
        session.write("twos", np.array(7, np.int32))
        found += [*other.persistent().values()]
        session.step(feeds)
        return [*found, *session.persistent().values()]


def test_nobody_sees_who_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    by_host = results()
    monkeypatch.setattr(Program, "counters", {})
    for found, expected in zip(by_host, results(), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert by_host[3] == 8
    assert by_host[4] == LARGEST + 6 - 2**32
    assert by_host[5] == 9


@pytest.mark.parametrize(
    ("exchanged", "counted"),
    [
        ("", {"n": 3}),
        ("constant first", {"n": 3}),
        ("another state", {}),
        ("an input", {}),
        ("two states", {}),
        ("two constants", {}),
        ("read elsewhere", {}),
        ("shown", {}),
        ("two updates", {}),
        ("a product", {}),
        ("a float", {}),
    ],
)
def test_a_counter_is_a_state_that_nothing_else_reads(
    exchanged: str, counted: dict[str, int]
) -> None:
    build = Builder()
    dtype = DType.F32 if exchanged == "a float" else DType.I32
    n, m = (build.add(Parameter(name, dtype, (), "state")) for name in "nm")
    three = build.add(Constant(3.0 if exchanged == "a float" else 3, dtype))
    left, right = {
        "constant first": (three, n),
        "another state": (m, three),
        "an input": (build.add(Input("x", dtype, ())), three),
        "two states": (n, m),
        "two constants": (three, three),
    }.get(exchanged, (n, three))
    after = build.add(Mul() if exchanged == "a product" else Add(), left, right)
    outputs = {"y": build.add(Add(), n, m)} if exchanged == "read elsewhere" else {}
    outputs |= {"after": after} if exchanged == "shown" else {}
    updates = {"n": after, "m": after} if exchanged == "two updates" else {"n": after}
    assert counters_of(build.graph(outputs, updates)) == counted
