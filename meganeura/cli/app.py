"""The command `meganeura`: its verbs, and the one place where errors become exit codes.

0: fine. 1: the program or the data is wrong. 2: the command line is wrong. 130: Ctrl-C ended it.
129, 143: SIGHUP or SIGTERM ended it. 141: nobody was left to read what a run shows.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from io import StringIO
from itertools import filterfalse
from pkgutil import iter_modules
from shlex import quote
from typing import Annotated, cast

import typer

from meganeura.cli import commands
from meganeura.cli.ui.console import OutputError, exit_code, say, show
from meganeura.cli.ui.streams import write_no_more
from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.plugins.plugin_groups import blame_of, malformed_metadata

TRACEBACK = "MEGANEURA_TRACEBACK"
"""Set this variable to see where an internal error came from."""

INTERNAL_ERROR = f"""\
internal error: {{kind}}: {{text}}
This is a mistake of Meganeura, not yours. Please report it with the command and the program.
Set {TRACEBACK}=1 to see where it happened."""

UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""The error for wrong arguments, of which typer exports this one kind."""


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the signature typer calls
    if wanted:
        say(f"meganeura {__version__}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself."""


def command_line(asked: str = "") -> typer.Typer:
    """All commands, or the one that is asked for alone: to import the others takes a while.

    A command is a function or a group of the same name as its module. A name that Python keeps to
    itself ends with an underscore there.
    """
    app = typer.Typer(
        help="Check, train and inspect neural networks written in .mgn.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    modules = {
        each.name.rstrip("_").replace("_", "-"): each.name
        for each in iter_modules(commands.__path__)
    }
    for name in (asked,) if asked in modules else modules:
        module = import_module(f"{commands.__name__}.{modules[name]}")
        command = getattr(module, modules[name])
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


@lru_cache(maxsize=64)
def _parser(asked: str = "") -> Callable[..., object]:
    """Returns what parses a command line and runs its command; it is made once in a process."""
    return typer.main.get_command(command_line(asked))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; a user's mistake is reported without a traceback."""
    unreadable = next(filterfalse(_is_utf8, arguments), None)
    if unreadable is not None:
        text = f"`{unreadable}` is not UTF-8, in which names are kept: give the file another one"
        return _wrong_usage(typer.BadParameter(text), arguments)
    try:
        parse = _parser(*arguments[:1])
        code: object = parse(arguments, prog_name="meganeura", standalone_mode=False)
        return _after_output(code if isinstance(code, int) else 0)
    except SystemExit as done:
        return _after_output(done.code if isinstance(done.code, int) else 0)
    except UsageError as error:
        return _wrong_usage(error, arguments)
    except ProblemError as error:
        return _refuse((error.problem.report(),))
    except ProblemsError as error:
        return _refuse(tuple(problem.report() for problem in error.problems))
    except OutputError as error:
        return _output_failed(str(error))
    except MemoryError:
        say("out of memory: a smaller batch needs less", err=True)
        return 1
    except Exception as error:
        found = _outside(error)
        if found is not None:
            return _refuse((found,))
        if os.environ.get(TRACEBACK):
            raise
        plugin = blame_of(error)
        if plugin is not None:
            return _refuse((plugin.failure.report(),))
        malformed = malformed_metadata(error)
        if malformed:
            say(f"error: {malformed}\n  help: reinstall or uninstall that package", err=True)
            return 1
        say(INTERNAL_ERROR.format(kind=type(error).__name__, text=error), err=True)
        return 1
    return 0


def _wrong_usage(error: typer.BadParameter, words: Sequence[str]) -> int:
    """Say what is wrong with the arguments, in which a terminal must not find what it obeys."""
    option = getattr(error, "option_name", "")
    advice = _as_setting(option, error.ctx and error.ctx.info_name, words)
    if advice:
        # The options that are spelled like it do something else.
        vars(error)["possibilities"] = None
    text = StringIO()
    error.show(text)
    say(text.getvalue().rstrip("\n"), err=True)
    if advice:
        say(advice, err=True)
    return error.exit_code


def _value_of(option: str, words: Sequence[str]) -> str:
    """Returns the value behind an option on a command line; empty where none stands there."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and (not after.startswith("-") or _is_number(after)):
            return after
    return ""


def _is_number(text: str) -> bool:
    """Returns True if a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_setting(option: str, command: str | None, words: Sequence[str]) -> str:
    """The `--set` form of an option such as `--lr`; empty where the option names no setting."""
    if not option.startswith("--") or command != "train":
        return ""
    from meganeura_dsl.settings.other_settings import OTHER_SETTINGS, with_the_command
    from meganeura_dsl.settings.run_settings import SETTINGS

    name = option.removeprefix("--").replace("-", "_")
    value = _value_of(option, words)
    if name in SETTINGS:
        shown = quote(f"{name}={value}") if value else f"{name}=VALUE"
        return f"`{name}` is a setting: --set {shown}"
    if name not in OTHER_SETTINGS:
        return ""
    advice = with_the_command(OTHER_SETTINGS[name])
    if _is_number(value) and _is_number((advice.code or "").rpartition("=")[2]):
        advice = with_the_command(OTHER_SETTINGS[name], value)
    return advice.text if advice.code is None else f"it is a setting: {advice.code}"


def _outside(error: Exception) -> Report | None:
    """Returns the report of an index out of range in the reference, if no session reports it."""
    from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
    from meganeura_runtime.io.data.index_problems import ComputedIndexOutside

    if not isinstance(error, OutsideError):
        return None
    location = "".join(error.__notes__[:1]).removeprefix("in ")
    return ComputedIndexOutside(error.id, error.size, location).report()


def _refuse(reports: tuple[Report, ...]) -> int:
    """Say what is wrong, on standard error."""
    show(reports, sys.stderr)
    return exit_code(reports)


def _is_utf8(argument: str) -> bool:
    """True if an argument is valid UTF-8; Python decodes other bytes to lone surrogates."""
    return not any("\ud800" <= each <= "\udfff" for each in argument)


def _output_failed(reason: str) -> int:
    """Say that standard output cannot be written, and leave it alone."""
    write_no_more()
    say(f"error: standard output cannot be written: {reason}", err=True)
    return 1


def _after_output(code: int) -> int:
    """Flush the output; its reader may be gone, as in `meganeura shapes x | head`."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        write_no_more()
    except OSError as error:
        return _output_failed(os.strerror(error.errno or 0))
    return code
