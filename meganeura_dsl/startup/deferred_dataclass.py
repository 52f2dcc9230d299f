"""Frozen dataclasses that are compiled when their first object is created.

`dataclass` writes six methods for a class and compiles each, which takes about 0.7 ms. A process
that checks a program defines some two hundred kinds of problems, and as a rule creates none.
"""

from dataclasses import dataclass
from threading import RLock
from typing import Self, dataclass_transform

from meganeura_dsl.startup.tricks import Trick, is_enabled

_COMPILED = "__is_compiled__"
"""What a class has when all of its methods are there, which another thread may ask for."""
_compiling = RLock()


@dataclass_transform(frozen_default=True)
class DeferredDataclass:
    """A base whose subclasses are frozen dataclasses, without a decorator of their own.

    One that is defined with `is_deferred` is compiled with its first object; its fields, equality
    and errors are those of any other from then on. The others, which are meant as bases, are
    compiled at once.
    """

    def __init_subclass__(cls, *, is_deferred: bool = False) -> None:
        super().__init_subclass__()
        if not is_deferred or not is_enabled(Trick.DATACLASSES):
            compile_dataclass(cls)

    def __new__(cls, *_: object, **__: object) -> Self:
        """An object of a class that is compiled by now."""
        if _COMPILED not in vars(cls):
            compile_dataclass(cls)
        return super().__new__(cls)


def compile_dataclass(cls: type[DeferredDataclass]) -> None:
    """Give a class the methods of a frozen dataclass, after its bases, unless it has them."""
    with _compiling:
        for each in reversed(cls.__mro__):
            if (
                issubclass(each, DeferredDataclass)
                and each is not DeferredDataclass
                and _COMPILED not in vars(each)
            ):
                dataclass(frozen=True)(each)
                setattr(each, _COMPILED, True)
