"""Finds the files that ship with the package: grammar, standard models, guides, language reference.

A wheel carries them inside the package; a checkout (and so an editable install) keeps them at its
top level, where people look for them.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _locate(packaged: str, in_checkout: str) -> Path:
    inside = _PACKAGE / packaged
    return inside if inside.is_dir() else _PACKAGE.parent / in_checkout


def grammar() -> str:
    """The text of the grammar, `mgn.lark`."""
    return (_locate("_grammar", "grammar") / "mgn.lark").read_text(encoding="utf-8")


def standard_models() -> Path:
    """The folder of the standard library and the standard models."""
    return _locate("_stdlib", "stdlib_models")


def standard_model_names() -> tuple[str, ...]:
    """The modules of the standard library, sorted: `nn`, `resnet`, ..."""
    return tuple(sorted(path.stem for path in standard_models().glob("*.mgn")))


def reference_pages() -> Path:
    """The folder of the written pages of the language reference, and `errors` in it."""
    return _locate("_reference", "tests/spec")


def guide_pages() -> Path:
    """The folder of the guides, which are listed in its `README.md`."""
    return _locate("_guides", "docs")
