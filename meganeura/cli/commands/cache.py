"""`meganeura cache`: what is kept of earlier compilations."""

from typing import Annotated

import typer

from meganeura.cli.ui.console import count, say


def cache(
    *, clear: Annotated[bool, typer.Option("--clear", help="Remove what was compiled.")] = False
) -> None:
    """Say where compiled programs are kept, and how many; they are made anew where missing."""
    from meganeura_dsl.support.disk_cache import user_cache
    from meganeura_dsl.support.paths import VARIABLE

    kept = user_cache()
    if kept is None:
        say(f"nothing is kept: {VARIABLE} is off")
        return
    megabytes = kept.bytes() / 1e6
    if clear:
        say(f"removed {count(kept.clear(), 'file')}, {megabytes:.1f} MB")
        return
    files = count(len(list(kept.paths())), "file")
    most = kept.most_bytes / 1e6
    say(f"{kept.folder}: {files}, {megabytes:.1f} MB of at most {most:.0f} MB")
    say(f"set {VARIABLE} to keep them in another folder, or to `off`")
