# What we use of cffi, which has no types of its own.
from collections.abc import Callable

__version__: str
FFI: Callable[[], object]
