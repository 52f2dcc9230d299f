"""Problems with the compiled grammar of an installation.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


class UnusableGrammar(Problem, code="E0190", topic="installation"):
    """The parser cannot run: the compiled grammar is missing or damaged, or does not fit."""

    reason: str

    def report(self) -> Report:
        headline = f"the compiled grammar cannot be used: {self.reason}"
        cure = Help(
            "install Meganeura again, or in a checkout compile the grammar",
            "python -m meganeura_dsl.syntax.parser.grammar",
        )
        return self.message(headline, cure=cure)
