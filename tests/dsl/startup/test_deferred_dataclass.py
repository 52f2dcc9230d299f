"""A dataclass is compiled with its first object, and is what the standard library makes of it."""

import dataclasses
import pickle
import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import Field, FrozenInstanceError, field, fields, is_dataclass, make_dataclass
from inspect import signature
from re import sub
from threading import Thread
from typing import Any, ClassVar

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.startup import deferred_dataclass
from meganeura_dsl.startup.deferred_dataclass import dataclass
from meganeura_dsl.startup.tricks import VARIABLE

Decorator = Callable[..., Callable[[type], type]]


def is_compiled(cls: type) -> bool:
    return isinstance(vars(cls)["__dataclass_fields__"], dict)


def code_name(cls: type, method: str) -> str:
    """The name in the code of a method, which that of a deferred one lacks."""
    return vars(cls)[method].__code__.co_name


@dataclass(frozen=True)
class Base:
    """What others derive from."""

    x: int


@dataclass(frozen=True)
class Kind(Base):
    """A kind that derives from another."""

    y: str = "y"
    z: list[int] = field(default_factory=list[int])


def test_a_class_is_compiled_with_its_first_object_after_its_bases() -> None:
    @dataclass(frozen=True)
    class First:
        x: int

    @dataclass(frozen=True)
    class Second(First):
        y: int = 0

    @dataclass(frozen=True)
    class Other(First):
        pass

    assert not any(map(is_compiled, (First, Second, Other)))
    found = Second(1, y=3)
    assert [is_compiled(each) for each in (First, Second, Other)] == [True, True, False]
    assert (found.x, found.y) == (1, 3)


def test_a_method_is_compiled_with_its_first_call() -> None:
    @dataclass(frozen=True)
    class Pair:
        x: int
        y: int

    one, same = Pair(1, 2), Pair(1, 2)
    methods = ("__init__", "__eq__", "__hash__")
    assert [code_name(Pair, each) for each in methods] == ["__init__", *["first_call"] * 2]
    assert one == same
    assert [code_name(Pair, each) for each in methods] == ["__init__", "__eq__", "first_call"]
    assert hash(one) == hash(same)
    assert [code_name(Pair, each) for each in methods] == [*methods]


def test_fields_of_a_class_without_objects() -> None:
    @dataclass(frozen=True)
    class Some:
        x: int = 1

    @dataclass(frozen=True)
    class More(Some):
        y: int = 2

    assert is_dataclass(More)
    assert [each.name for each in fields(More)] == ["x", "y"]
    assert is_compiled(Some)


def test_a_dataclass_of_the_standard_library_may_derive_from_one() -> None:
    @dataclass(frozen=True)
    class Ours:
        x: int

    @dataclasses.dataclass(frozen=True)
    class Theirs(Ours):
        y: int

    assert Theirs(1, 2) == Theirs(1, 2)
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        make_dataclass("Mutable", ["y"], bases=(Ours,))


def test_a_class_that_is_none_itself_may_derive_from_one() -> None:
    @dataclass(frozen=True)
    class Ours:
        x: int

    class Derived(Ours):
        pass

    assert Derived(3).x == 3
    assert Derived(3) == Derived(3) != Ours(3)


FORMS: Mapping[str, dict[str, Any]] = {
    "nothing": {},
    "frozen": {"frozen": True},
    "identity": {"frozen": True, "eq": False},
    "slots": {"frozen": True, "slots": True},
    "slots and identity": {"frozen": True, "slots": True, "eq": False, "repr": False},
    "mutable slots": {"slots": True},
    "by name": {"frozen": True, "kw_only": True},
    "unshown": {"repr": False},
}


def made_with(decorator: Decorator, options: dict[str, Any]) -> tuple[type, type]:
    """A class with all that fields may have, and one that writes some methods itself."""

    class Wide:
        place: ClassVar[str] = "here"
        x: int
        y: str = "y"
        named: int = field(default=5, kw_only=True)
        many: list[int] = field(default_factory=list[int])
        last: float = field(default=0.5, compare=False, repr=False)
        counted: int = field(init=False, hash=False)
        made: list[int] = field(init=False, default_factory=lambda: [7], compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "counted", len(self.many))

    class Own:  # noqa: PLW1641  the decorator does
        x: int = 0

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    return decorator(**options)(Wide), decorator(**options)(Own)


def outcome(action: Callable[[], object]) -> object:
    """What comes of it, an exception too."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001  they are compared
        return type(error), str(error)


def parameters(cls: type) -> list[tuple[str, object, object]]:
    """Those of `__init__`; the default of a list that is made is a mark of whoever wrote it."""
    found = signature(vars(cls)["__init__"])
    assert found.return_annotation is None
    return [(each.name, each.kind, each.annotation) for each in found.parameters.values()]


@pytest.mark.parametrize("name", FORMS)
def test_objects_are_those_of_the_standard_library(name: str) -> None:
    def told(decorator: Decorator) -> list[object]:
        wide, own = made_with(decorator, FORMS[name])
        given: dict[str, Any] = {"x": 1, "y": "b", "many": [1]}
        one, same = wide(**given), wide(**given)
        actions: list[Callable[[], object]] = [
            lambda: sub("0x[0-9a-f]+", "address", repr(one)),
            lambda: (one == same, one != same, one == wide(x=2), one == 3),
            lambda: hash(wide(x=1, y="b", many=())) == hash(wide(x=1, y="b", many=())),
            lambda: hash(one) and "of its identity",
            lambda: (one.x, one.y, one.named, one.many, one.last, one.counted, one.made),
            lambda: one.many is same.many or one.made is same.made,
            lambda: setattr(one, "x", 2),
            lambda: delattr(one, "y"),
            lambda: setattr(one, "unknown", 2),
            lambda: wide(1, "b", [2], named=3).counted,
            wide,
            lambda: wide(1, 2, 3, 4, 5),
            lambda: wide(x=1, what=2),
            lambda: dataclasses.replace(wide(x=1), x=4).x,
            lambda: copy(wide(x=9)).x,
            lambda: wide.__match_args__,
            lambda: [(f.name, f.init, f.kw_only, f.compare) for f in fields(wide)],
            lambda: parameters(wide),
            lambda: (own() == 3, repr(own()), hash(own()) and "hashed"),
            lambda: wide.__init__.__qualname__,
        ]
        return [outcome(each) for each in actions]

    assert told(dataclass) == told(dataclasses.dataclass)


@dataclass(frozen=True)
class Before:
    """The base of a class of which an object is unpickled before one is made."""

    x: int


@dataclass(frozen=True)
class Late(Before):
    """That class."""

    y: list[int] = field(default_factory=list[int])


@dataclasses.dataclass(frozen=True)
class Twin:
    """Its twin."""

    x: int
    y: list[int]


def test_the_first_object_may_be_unpickled() -> None:
    pickled = pickle.dumps(Twin(3, [4])).replace(b"Twin", b"Late")
    assert not is_compiled(Late)
    one, same = pickle.loads(pickled), pickle.loads(pickled)  # noqa: S301  our own
    assert one == same
    assert repr(one) == "Late(x=3, y=[4])"
    assert pickle.loads(pickle.dumps(one)) == Late(3, [4])  # noqa: S301  our own


def test_an_object_in_itself_is_shown() -> None:
    @dataclass(frozen=True)
    class Loop:
        items: list[object]

    loop = Loop([])
    loop.items.append(loop)
    assert repr(loop).endswith("Loop(items=[...])")


def test_its_objects_are_matched_and_refuse_assignment() -> None:
    match Kind(1):
        case Kind(x, y):
            assert (x, y) == (1, "y")
        case _:
            pytest.fail("does not match")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        setattr(Kind(1), "x", 2)  # noqa: B010  as a type checker would object


def test_all_dataclasses_of_the_language_take_what_the_standard_library_lets_them() -> None:
    assert pipeline
    classes = [
        each
        for name, module in [*sys.modules.items()]
        if name.startswith("meganeura_dsl.")
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == name and is_dataclass(each)
        if "__init__" in vars(each)
    ]
    assert len(classes) > 300
    for each in classes:
        twin = make_dataclass(each.__name__, [(f.name, f.type, anew(f)) for f in fields(each)])
        assert parameters(compiled(each)) == parameters(twin), each


def compiled(cls: type) -> type:
    """The class, with its `__init__` written by a call that is refused."""
    with pytest.raises(TypeError):
        vars(cls)["__init__"](None, no_such_argument=0)
    return cls


def anew(of: Field[Any]) -> object:
    """A field as it was declared."""
    names = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    return field(**{name: getattr(of, name) for name in names})


def test_without_the_trick_a_class_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "dataclasses")

    @dataclass(frozen=True)
    class Plain(Base):
        y: int

    assert is_compiled(Plain)
    assert code_name(Plain, "__eq__") == "__eq__"
    assert Plain(1, 2).y == 2


@dataclass(slots=True)
class Slotted:
    """A base of which the state is that of slots."""

    x: int


@dataclass
class Unslotted(Slotted):
    """It has both."""

    y: int = 0


@dataclass
class Unstated(Slotted):
    """It has nothing of its own."""


@dataclass(slots=True)
class SlottedAgain(Unslotted):
    """Slots of its own too."""

    z: int = 0


@pytest.mark.parametrize("one", [Unslotted(1, 2), Unstated(1), SlottedAgain(1, 2, 3)])
def test_an_object_with_slots_is_pickled_and_copied(one: object) -> None:
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  our own
    assert copy(one) == one


@pytest.mark.parametrize("decorator", [dataclass, dataclasses.dataclass])
def test_ordered_objects_and_a_class_without_init(decorator: Decorator) -> None:
    class Ordered:
        x: int

    class Empty:
        x: int = 0

    one: Callable[[int], Any] = decorator(frozen=True, order=True)(Ordered)
    assert one(1) < one(2) <= one(2) == one(2)
    with pytest.raises(TypeError, match="takes no arguments"):
        decorator(init=False)(Empty)(1)


def made(cls: type) -> object:
    return cls(1)


def unpickled(cls: type) -> object:
    """As pickle makes an object of a class."""
    one: Any = object.__new__(cls)
    one.__setstate__({"x": 1, "y": "y", "z": (), "last": 0})
    return one


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("how", [made, unpickled])
def test_another_thread_waits_until_a_class_is_whole(
    how: Callable[[type], object], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Late(Kind):
        z: Any = ()
        last: int = 0

    found: list[object] = []
    other = Thread(target=lambda: found.append(outcome(lambda: hash(how(Late)))))

    def wait() -> None:
        other.start()
        other.join(0.05)
        assert not found

    def slowly(**options: bool) -> Callable[[type], type]:
        def compiled(cls: type) -> type:
            if moment == "before":
                wait()
            whole = dataclasses.dataclass(**options)(cls)
            if moment == "after":
                wait()
            return whole

        return compiled

    Kind(1)
    monkeypatch.setattr(deferred_dataclass, "_decorator", slowly)
    one = Late(1)
    other.join()
    assert found == [hash(one)]


def test_a_class_whose_init_is_found_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Late:
        x: int

    found: list[int] = []
    defer = vars(deferred_dataclass)["_defer"]

    def then_in_another_thread(cls: type, name: str, write: object) -> None:
        defer(cls, name, write)
        if name == "__init__":
            other = Thread(target=lambda: found.append(hash(Late(1))))
            other.start()
            other.join()

    monkeypatch.setattr(deferred_dataclass, "_defer", then_in_another_thread)
    one = Late(1)
    assert found == [hash(one)]
