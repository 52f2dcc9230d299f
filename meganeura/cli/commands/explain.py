"""`meganeura explain`: the page behind the code of a message."""

from typing import Annotated

import typer

from meganeura.cli.ui.console import say
from meganeura.cli.ui.pager import show_page


def explain(
    code: Annotated[
        str | None,
        typer.Argument(metavar="[CODE]", help="Such as E0301, or adam; all codes without one."),
    ] = None,
) -> None:
    """Explain a code that a message carries, an optimizer or a learning-rate schedule."""
    from meganeura.cli.error_catalogue import problems
    from meganeura_dsl.explain import UnknownCodeError, overview
    from meganeura_dsl.explain import explain as page_of

    if code is None:
        say(overview(problems()))
        return
    try:
        show_page(page_of(code, problems()))
    except UnknownCodeError as error:
        from meganeura_dsl.reference.library import sources_of
        from meganeura_dsl.settings.choices import choice_page
        from meganeura_dsl.settings.settings_problems import library_optimizers

        if (page := choice_page(code)) is not None:
            say(page)
            return
        if code in library_optimizers():
            for entry in sources_of(code):
                say(entry.text)
            return
        raise typer.BadParameter(str(error), param_hint="CODE") from None
