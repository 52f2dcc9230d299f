"""The magic `%%mgn`: a cell of a notebook that is a program."""

from importlib import import_module
from keyword import iskeyword
from typing import Any, Protocol

from meganeura.program import Program

NAME = "program"
"""The variable of a program whose cell names none."""
CELL = "cell.mgn"
"""The name of a program in messages; imports and data are found beside it."""


class Shell(Protocol):
    """The shell of IPython, as far as it is used."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: object, magic_kind: str, magic_name: str) -> None:
        """Makes a function a magic."""


def register(shell: Shell) -> None:
    """Makes `%%mgn` a magic of a shell."""

    def mgn(line: str, cell: str) -> Program:
        """Prove the program of a cell, and keep it as a variable.

            %%mgn net
            block Net(d)(x: [n, c]) -> [n, d] = x |> fc: linear(d)
            model net = Net(3)

        is the variable `net`; without a name it is `program`. Imports and data are found in the
        working folder. A program that does not hold is not kept, and its problems are shown.
        """
        name = line.strip() or NAME
        if not name.isidentifier() or iskeyword(name):
            usage_error = import_module("IPython.core.error").UsageError
            raise usage_error(f"`%%mgn NAME` takes the name of one variable, not `{name}`")
        shell.user_ns[name] = found = Program.from_text(cell, CELL)
        return found

    shell.register_magic_function(mgn, "cell", "mgn")
