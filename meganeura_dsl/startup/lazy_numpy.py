"""NumPy, loaded when the first array is made: to check a program needs no arrays."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from meganeura_dsl.startup.tricks import Trick, is_enabled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:

    class _Deferred:
        """Stands for NumPy until something of it is used, and remembers what was."""

        def __getattr__(self, name: str) -> object:
            found = getattr(import_module("numpy"), name)
            self.__dict__[name] = found
            return found

    np = _Deferred() if is_enabled(Trick.NUMPY) else import_module("numpy")
    Array = Any

__all__ = ["Array", "np"]
