"""The declarations of wgpu's library as tables, so that its header is not read again and again.

wgpu gives cffi a header of 4,000 lines as text. cffi parses it at every start, and goes through all
of its names again for each type that is used for the first time: forty times before the first step,
all of it in Python. The tables that cffi makes of declarations for compiled modules hold the same,
and types are found in them by its C code.

These are the tables of cffi's out-of-line ABI mode. That mode writes a module of Python and imports
it; here its tables are read as literals, because nothing of the cache is executed.
"""

import ast
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from io import StringIO
from threading import Lock

from meganeura_dsl.support.disk_cache import user_cache

NAME = "wgpu"

_replacing = Lock()
"""Held while cffi's class is replaced by ours."""


class NoTablesError(Exception):
    """This version of cffi makes tables of another form; it can read the text itself."""


@contextmanager
def as_tables() -> Generator[None]:
    """While entered, a module that declares a library to cffi in text gets it as tables.

    Raises `ImportError` where there is no cffi. The module sees `NoTablesError` where there are no
    tables.
    """
    import cffi  # noqa: PLC0415 - it may be missing, as wgpu may
    from _cffi_backend import FFI  # noqa: PLC0415

    class Tabled(FFI):
        """A `cffi.FFI` with declarations that are parsed once."""

        def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
            """The tables are passed on once the text is known."""

        def cdef(self, text: str) -> None:
            """Declare what a header says."""
            try:
                super().__init__(NAME, **_tables(text, cffi.__version__))
            except (SyntaxError, TypeError, ValueError) as error:
                raise NoTablesError(str(error)) from error

        def set_source(self, name: str, source: None) -> None:
            """Name a module that nobody makes."""

    with _replacing:
        plain, cffi.FFI = cffi.FFI, Tabled
        try:
            yield
        finally:
            cffi.FFI = plain


def _tables(text: str, version: str) -> Mapping[str, object]:
    """The tables of a header, made by this version of cffi, now or before."""
    cache = user_cache()
    what = f"declarations {sys.platform} {version}\n{text}"
    key = sha256(what.encode()).hexdigest()
    content = None if cache is None else cache.find(key)
    if content is not None:
        return _literals(content.decode())
    parsed = _parsed(text)
    if cache is not None:
        cache.store(key, parsed.encode())
    return _literals(parsed)


def _parsed(text: str) -> str:
    """The tables of a header, in a module as cffi writes it."""
    from cffi.api import FFI  # noqa: PLC0415

    parsed = FFI()
    parsed.cdef(text)
    parsed.set_source(NAME, None, compiler_verbose=False)
    module = StringIO()
    parsed.emit_python_code(module)
    return module.getvalue()


def _literals(module: str) -> Mapping[str, object]:
    """Returns the arguments by name that such a module gives its `FFI`; it is not run."""
    match ast.parse(module).body:
        case [*_, ast.Assign(value=ast.Call(keywords=keywords))]:
            return {each.arg or "": ast.literal_eval(each.value) for each in keywords}
        case _:
            raise ValueError("cffi writes modules of another form")
