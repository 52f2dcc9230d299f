"""A package of which only some modules are imported, without what its `__init__` imports.

`import lark` loads all of Lark, the compiler of grammars among it, in 22 ms; its LALR parser alone
takes 8.
"""

import sys
from collections.abc import Callable, Collection
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType


def import_in_parts(name: str, functions: Collection[str] = ()) -> None:
    """Let the modules of a package be imported alone; it runs itself when something of it is used.

    To import one of the `functions` is no use yet, to call it is. While the package runs, other
    threads wait for what it lacks; the thread that runs it is told that it is not there. What
    fails is run again at the next use. Nothing changes for a package that was imported before, or
    is not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    loader = spec and spec.loader
    if spec is None or loader is None:
        return
    package, lock = module_from_spec(spec), RLock()
    is_running = is_whole = False

    def run() -> ModuleType:
        nonlocal is_running, is_whole
        with lock:
            if is_running or is_whole:
                return package
            is_running = True
            try:
                for each in functions:
                    package.__dict__.pop(each, None)
                loader.exec_module(package)
            finally:
                is_running = False
            is_whole = True
            if package.__dict__["__getattr__"] is when_used:
                del package.__dict__["__getattr__"]
        return package

    def when_called(function: str) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            return getattr(run(), function)(*given, **named)

        return call

    def when_used(attribute: str) -> object:
        whole = run()
        if not is_whole:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return getattr(whole, attribute)

    package.__dict__.update({each: when_called(each) for each in functions})
    package.__dict__["__getattr__"] = when_used
    sys.modules[name] = package
    within, _, last = name.rpartition(".")
    if within:
        setattr(sys.modules[within], last, package)
