"""Declarations of a C library as tables: they mean what the text means, and are kept."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import cffi
import cffi.api
import pytest

from meganeura_dsl.support.disk_cache import DiskCache
from meganeura_runtime.backends.webgpu.device import cffi_tables, wgpu_native
from meganeura_runtime.backends.webgpu.device.adapters import list_devices
from meganeura_runtime.backends.webgpu.device.cffi_tables import NoTablesError, as_tables

HEADER = """
typedef enum Colour { Colour_Red = 3, Colour_Blue = 0x7FFFFFFF } Colour;
typedef struct Pair { int32_t first; struct Pair const *next; Colour colour; } Pair;
typedef int (*Compare)(void const *, void const *);
#define LIMIT 41
int abs(int);
void qsort(void *, size_t, size_t, Compare);
"""


@contextmanager
def declared(text: str = HEADER) -> Generator[Any]:
    """Declares a library in a module as wgpu does, and gives the module's content."""
    with as_tables():
        made: Any = cffi.FFI()
        made.cdef(text)
        made.set_source("header.h", None)
    yield made


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path))
    return DiskCache(tmp_path / "compiled")


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a header is parsed")

    monkeypatch.setattr(cffi.api.FFI, "cdef", refuse)


def test_tables_mean_what_the_text_means() -> None:
    with declared() as ffi:
        library = ffi.dlopen(None)
        assert (library.LIMIT, library.Colour_Red, library.Colour_Blue) == (41, 3, 0x7FFFFFFF)
        assert library.abs(-5) == 5
        one = ffi.new("Pair *", {"first": -7, "colour": library.Colour_Blue})
        two = ffi.new("Pair *", {"next": one})
        assert (two.next.first, two.next.colour, two.next.next) == (-7, 0x7FFFFFFF, ffi.NULL)
        assert ffi.sizeof("Pair") == 24

        @ffi.callback("int(void const *, void const *)")
        def compare(left: object, right: object) -> int:
            return ffi.cast("int *", left)[0] - ffi.cast("int *", right)[0]

        numbers = ffi.new("int[]", [3, 1, 2])
        library.qsort(numbers, 3, 4, compare)
        assert list(numbers) == [1, 2, 3]


def test_only_what_is_declared_meanwhile_becomes_tables() -> None:
    plain = cffi.FFI
    with as_tables():
        assert cffi.FFI is not plain
    with pytest.raises(Exception, match="cannot parse"), declared("int int;"):
        pass
    assert cffi.FFI is plain


def test_a_header_is_parsed_once(kept: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with declared():
        (entry,) = kept.paths()
    forbid_parsing(monkeypatch)
    with declared() as ffi:
        assert ffi.sizeof("Pair") == 24
    with pytest.raises(AssertionError), declared("int labs(long);"):
        pass
    assert list(kept.paths()) == [entry]


def test_tables_are_of_one_version_of_cffi(
    kept: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with declared():
        assert len(list(kept.paths())) == 1
    for module in (cffi, import_module("_cffi_backend")):
        monkeypatch.setattr(module, "__version__", "another")
    with declared():
        assert len(list(kept.paths())) == 2


def test_what_is_kept_is_data_and_not_run(kept: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    for foreign, reason in (
        ("ffi = FFI(_version=print('run'))", "malformed"),
        ("ffi = FFI(_version=", "never closed"),
    ):
        monkeypatch.setattr(DiskCache, "find", lambda *_, text=foreign: text.encode())
        with pytest.raises(NoTablesError, match=reason), declared():
            pass
    monkeypatch.setattr(cffi_tables, "_parsed", lambda _: "pass")
    monkeypatch.setattr(DiskCache, "find", lambda *_: None)
    with pytest.raises(NoTablesError, match="another form"), declared():
        pass
    assert kept.bytes() > 0


@pytest.mark.adapter
def test_the_library_of_wgpu_is_declared_in_tables() -> None:
    list_devices()
    ffi = import_module("wgpu.backends.wgpu_native").ffi
    assert isinstance(ffi, import_module("_cffi_backend").FFI)


def test_a_library_is_loaded_all_the_same_where_there_are_no_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, seen = cffi.FFI, list[Callable[[], Any]]()

    def load(_: str) -> None:
        seen.append(cffi.FFI)
        seen[-1]().cdef("int abs(int);")

    monkeypatch.setattr(cffi_tables, "_tables", lambda *_: {"another": "form"})
    monkeypatch.setattr(wgpu_native, "import_module", load)
    with pytest.warns(UserWarning, match="cffi gives no tables"):
        wgpu_native._load_library.__wrapped__()
    assert len(seen) == 2
    assert seen[1] is plain
