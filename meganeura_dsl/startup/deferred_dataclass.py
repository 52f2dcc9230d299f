"""Dataclasses that are compiled with their first object, and their methods with their first call.

`dataclass` of the standard library writes six methods for a class and compiles each, which takes
0.3 ms or more. A process that checks a program defines some three hundred dataclasses, as a rule
makes objects of a hundred, and compares those of few: 0.11 of the 0.34 s of processor time of
`meganeura check digits_mlp`.

It differs from the standard one in this:

- No class has an `InitVar`: `__init__` takes fields.
- Before the first object, the class has the `Field` itself where it was written as
  `x: int = field(default=3)`, not its default.
- A subclass that is no dataclass, and whose own `__init__` does not call the inherited one, has
  neither the methods nor `__match_args__` before the first object of the dataclass or the first
  look at its fields.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from reprlib import recursive_repr
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from meganeura_dsl.startup.tricks import Trick, is_enabled

_FIELDS = "__dataclass_fields__"
"""What a dataclass has its fields in, by name."""
_decorator = cast("Callable[..., Callable[[type], type]]", dataclasses.dataclass)
_compiling = RLock()


def _dataclass(cls: type | None = None, /, **options: bool) -> object:
    """The decorator of the standard library, except when it does its work.

    With slots a class is another object than the one that was written, so that it is made at once
    and its methods alone wait. One with an order, or without `init`, is compiled at once.
    """
    if cls is None:
        return partial(_dataclass, **options)
    is_rare = not options.get("init", True) or options.get("order", False)
    if "__init__" in vars(cls) or is_rare or not is_enabled(Trick.DATACLASSES):
        return _decorator(**options)(cls)
    if options.get("slots", False):
        return _compiled(cls, options)
    setattr(cls, _FIELDS, _Pending(cls, options))
    _defer(cls, "__init__", _init_of_compiled)
    if not hasattr(cls, "__setstate__"):
        setattr(cls, "__setstate__", _setstate)  # noqa: B010  as `cls` is any class
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]


class _Pending:
    """Stands for the fields of a class until they are asked for, and the class is compiled."""

    def __init__(self, cls: type, options: Mapping[str, bool]) -> None:
        self.cls = cls
        self.options = options

    def __get__(self, _: object, owner: type) -> object:
        """The fields; another thread waits until the class is whole."""
        with _compiling:
            if vars(self.cls)[_FIELDS] is self:
                _compiled(self.cls, self.options)
        return getattr(owner, _FIELDS)


def _compiled(cls: type, options: Mapping[str, bool]) -> type:
    """A dataclass without methods, which it gets when they are called, except for its own.

    `__init__` comes last: who finds it in another thread finds a whole class.
    """
    without = {"init": False, "repr": False, "eq": False}
    made = _decorator(**{**options, **without})(cls)
    own = vars(made)
    is_hashed = options.get("eq", True) and own.get("__hash__") is None
    if options.get("repr", True) and "__repr__" not in own:
        _defer(made, "__repr__", _repr)
    if options.get("eq", True) and "__eq__" not in own:
        _defer(made, "__eq__", _eq)
    if is_hashed and options.get("frozen", False):
        _defer(made, "__hash__", _hash)
    elif is_hashed:
        setattr(made, "__hash__", None)  # noqa: B010  which a type checker refuses as an assignment
    _defer(made, "__init__", _frozen_init if options.get("frozen", False) else _init)
    return made


# --- methods -------------------------------------------------------------------------------------

_Method = Callable[..., Any]
_Write = Callable[[type], _Method]


def _defer(cls: type, name: str, write: _Write) -> None:
    """Give a class a method that is written when it is called."""

    def first_call(self_: object, /, *given: object, **named: object) -> object:
        method = write(cls)
        setattr(cls, name, method)
        return method(self_, *given, **named)

    setattr(cls, name, first_call)


_State = Mapping[str, object] | None


def _setstate(self: object, state: _State | tuple[_State, _State]) -> None:
    """Give an unpickled object, which may be the first of its class, its fields.

    With a base or a subclass that has slots, the state is that of `__dict__` and that of slots.
    """
    with _compiling:
        getattr(self, _FIELDS)
    in_dict, in_slots = state if isinstance(state, tuple) else (state, None)
    if in_dict:
        vars(self).update(in_dict)
    for name, value in (in_slots or {}).items():
        object.__setattr__(self, name, value)


def _init_of_compiled(cls: type) -> _Method:
    """The `__init__` of a class that may still wait, or that another thread compiles now."""
    with _compiling:
        fields(cls)
        return vars(cls)["__init__"]


def _frozen_init(cls: type) -> _Method:
    """Fields are set past the refusal of the class."""
    return _init(cls, "__set(self, {0!r}, {1})")


def _init(cls: type, assignment: str = "self.{0} = {1}") -> _Method:
    known: dict[str, object] = {"__set": object.__setattr__, "__missing": MISSING}
    first, named, body = list[str](), list[str](), list[str]()
    for each in fields(cls):
        name, value = each.name, each.name
        default = ""
        if each.default_factory is not MISSING:
            known[f"__make_{name}"] = each.default_factory
            default, made = "__missing", f"__make_{name}()"
            value = f"{made} if {name} is __missing else {name}" if each.init else made
        elif each.default is not MISSING:
            known[f"__default_{name}"] = each.default
            default = f"__default_{name}"
            value = name if each.init else default
        elif not each.init:
            continue
        if each.init:
            parameter = f"{name}={default}" if default else name
            (named if each.kw_only else first).append(parameter)
        body.append(assignment.format(name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ("self", *first, *(["*"] if named else []), *named)
    method = _function(cls, "__init__", parameters, body or ["pass"], known)
    types = {each.name: each.type for each in fields(cls) if each.init}
    method.__annotations__ = {**types, "return": None}
    return method


def _eq(cls: type) -> _Method:
    names = [each.name for each in fields(cls) if each.compare]
    body = [
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', names)} == {_tuple('other', names)}",
        "return NotImplemented",
    ]
    return _function(cls, "__eq__", ("self", "other"), body)


def _hash(cls: type) -> _Method:
    hashed = [f for f in fields(cls) if (f.compare if f.hash is None else f.hash)]
    body = [f"return hash({_tuple('self', [each.name for each in hashed])})"]
    return _function(cls, "__hash__", ("self",), body)


def _repr(cls: type) -> _Method:
    names = [each.name for each in fields(cls) if each.repr]

    @recursive_repr()
    def shown(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return shown


def _tuple(owner: str, names: Iterable[str]) -> str:
    """The text of a tuple: `(self.x, self.y, )`."""
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


def _function(
    cls: type,
    name: str,
    parameters: Iterable[str],
    body: Iterable[str],
    known: Mapping[str, object] | None = None,
) -> _Method:
    """A method of a class, from its text."""
    space: dict[str, Any] = {"__name__": cls.__module__, **(known or {})}
    lines = "".join(f"\n    {line}" for line in body)
    exec(f"def {name}({', '.join(parameters)}):{lines}", space)  # noqa: S102  names of fields alone
    method = space[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method
