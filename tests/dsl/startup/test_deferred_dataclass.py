"""A deferred dataclass is compiled with its first object, and is like any other from then on."""

from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from threading import Thread
from typing import Any

import pytest

from meganeura_dsl.startup import deferred_dataclass
from meganeura_dsl.startup.deferred_dataclass import DeferredDataclass
from meganeura_dsl.startup.tricks import VARIABLE

COMPILED = "__is_compiled__"


class Base(DeferredDataclass):
    """What others derive from."""

    x: int


class Deferred(Base, is_deferred=True):
    """A kind that derives from another."""

    y: str = "y"
    z: list[int] = field(default_factory=list[int])


def test_a_class_is_compiled_with_its_first_object() -> None:
    class Kind(Deferred, is_deferred=True):
        last: int = 0

    class Other(Deferred, is_deferred=True):
        pass

    assert COMPILED in vars(Base)
    assert COMPILED not in vars(Kind)
    found = Kind(1, "a", last=3)
    assert COMPILED in vars(Kind)
    assert COMPILED in vars(Deferred)
    assert COMPILED not in vars(Other)
    assert [each.name for each in fields(found)] == ["x", "y", "z", "last"]


def test_its_objects_are_those_of_a_frozen_dataclass() -> None:
    one, nothing = Deferred(1), dict[str, Any]()
    assert one == Deferred(1, "y", [])
    assert one != Deferred(2)
    assert repr(replace(one, y="b")).endswith("Deferred(x=1, y='b', z=[])")
    assert one.z is not Deferred(1).z
    with pytest.raises(FrozenInstanceError):
        setattr(one, "x", 2)  # noqa: B010  as a type checker would object
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Deferred(**nothing)
    match one:
        case Deferred(x, y):
            assert (x, y) == (1, "y")
        case _:
            pytest.fail("does not match")


def test_without_the_trick_a_class_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "dataclasses")

    class Kind(Base, is_deferred=True):
        y: int

    assert COMPILED in vars(Kind)
    assert Kind(1, 2).y == 2


def test_another_thread_waits_until_a_class_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kind(Deferred, is_deferred=True):
        last: int = 0

    found: list[Kind] = []
    other = Thread(target=lambda: found.append(Kind(1, last=3)))

    def compiled(*, frozen: bool) -> object:
        def compile_(cls: type) -> type:
            setattr(cls, "__dataclass_params__", None)  # noqa: B010  as `dataclass` begins
            other.start()
            other.join(0.05)
            return dataclass(frozen=frozen)(cls)

        return compile_

    Deferred(1)
    monkeypatch.setattr(deferred_dataclass, "dataclass", compiled)
    assert Kind(1, last=2).last == 2
    other.join()
    assert [each.last for each in found] == [3]
