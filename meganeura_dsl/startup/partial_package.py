"""A package of which only some modules are imported, without what its `__init__` imports.

`import lark` loads all of Lark, the compiler of grammars among it, in 22 ms; its LALR parser alone
takes 8.
"""

import sys
from importlib.util import find_spec, module_from_spec


def import_in_parts(name: str) -> None:
    """Let the modules of a package be imported alone; it runs itself when something of it is used.

    Nothing changes for a package that was imported before, or is not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    loader = spec and spec.loader
    if spec is None or loader is None:
        return
    package = module_from_spec(spec)

    def run_package(attribute: str) -> object:
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, attribute)

    package.__dict__["__getattr__"] = run_package
    sys.modules[name] = package
